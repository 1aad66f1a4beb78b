#include "runtime/tool/pytorch_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/measure.hpp"
#include "runtime/measure/run_record.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/run/span_kinds.hpp"
#include "sim/spec/schedule_csv.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

/// Gone with everything in it at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "pdl-run-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw CannotRun("no temporary folder: " + std::string(std::strerror(errno)));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// The interpreter, with its standard output on a pipe and its standard error in a file. Killed at the end of the scope
/// if it is still there.
class Interpreter {
 public:
  Interpreter(std::vector<std::string> words, const std::string& errors) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw CannotRun("no pipe: " + std::string(std::strerror(errno)));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (error == 0) return;
    close(output_);
    throw InputError("--python", words.front() + ", which cannot be started: " + std::strerror(error),
                     "a Python interpreter that has PyTorch");
  }
  ~Interpreter() {
    close(output_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Calls `line` for each line of its output, until there is no more; then its status.
  template <typename Line>
  int run(const Line& line) {
    std::string text;
    char buffer[512];
    while (true) {
      const ssize_t count = read(output_, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      text.append(buffer, static_cast<std::size_t>(count));
      for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        line(text.substr(0, end));
        text.erase(0, end + 1);
      }
    }
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

nlohmann::ordered_json layer_json(const Layer& layer) {
  nlohmann::ordered_json json = {{"kind", layer.kind->name}};
  for (const LayerSize& size : layer.kind->sizes)
    json[std::string(size.name)] = size.name == "in" ? input_numbers(layer) : output_numbers(layer);
  return json;
}

nlohmann::ordered_json stage_json(const Plan& plan, const Stage& stage) {
  const auto layer = [&](std::int32_t index) { return plan.spec.model.layers[static_cast<std::size_t>(index)]; };
  return {{"worker", only_worker(stage)},
          {"first_layer", stage.first_layer},
          {"layer_count", stage.layer_count},
          {"in", input_numbers(layer(stage.first_layer))},
          {"out", output_numbers(layer(stage.first_layer + stage.layer_count - 1))},
          {"parameters", parameters(plan.spec.model, stage.first_layer, stage.layer_count)}};
}

std::string script() {
  const std::string folder = bundled_folder("runtime/pytorch");
  if (folder.empty()) throw CannotRun("runtime/pytorch/train.py, which came with this program, is not there");
  return folder + "/train.py";
}

/// What the program has written, or why it has not.
nlohmann::json record_of(int status, const std::string& record, const std::string& errors, const std::string& python) {
  constexpr int kNoPytorch = 4;
  const std::string said = contents(errors);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPytorch)
    throw InputError("--python", python + ", which has no PyTorch (" + last_line(said) + ")",
                     "a Python interpreter that has it");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return nlohmann::json::parse(contents(record));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitInput)
    throw InputError("--program", "pytorch by " + python + ": " + last_line(said), "what this PyTorch can run");
  throw CannotRun("PyTorch by " + python + ": " + (said.empty() ? "it was killed" : last_line(said)));
}

}  // namespace

void check_pytorch_run(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program != Program::pytorch_pipeline) {
    throw InputError(
        "--program", "pytorch with strategy " + to_string(spec.strategy),
        "a pipeline with a process a GPU: of the others pdl-run has its own program alone (--program pdl)");
  }
  if (spec.delay_ms > 0 || spec.straggler)
    throw InputError("--program", "pytorch with hosts that sleep", "no --delay-ms, no --straggler");
  const bool cuda = options.device == DeviceKind::cuda;
  if (spec.gpus > 1 && (spec.transport == Transport::nccl) != cuda)
    throw InputError("--transport", to_string(spec.transport) + (cuda ? " on GPUs" : " on CPU"),
                     cuda ? "nccl" : "gloo");
  const Schedule* schedule = named_schedule(spec);
  if (!cuda && spec.gpus > 1 && schedule && schedule->placement == Placement::v) {
    throw InputError("--schedule", spec.schedule + " with program pytorch on CPU",
                     "one without a V: PyTorch opens its connections by a message to itself, which Gloo refuses");
  }
  check_devices(spec, options);
}

nlohmann::ordered_json pytorch_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  const Schedule* schedule = named_schedule(spec);
  nlohmann::ordered_json json = {{"device", options.device == DeviceKind::cuda ? "cuda" : "cpu"},
                                 {"workers", plan.graph.workers},
                                 {"pytorch_class", schedule ? std::string(schedule->pytorch_class) : ""},
                                 {"schedule_csv", schedule ? "" : to_csv(*spec.schedule_file)},
                                 {"microbatch_rows", plan.microbatch_rows},
                                 {"accum", spec.accum},
                                 {"dtype", to_string(spec.dtype)},
                                 {"optimizer", to_string(spec.optimizer)},
                                 {"learning_rate", options.learning_rate},
                                 {"seed", options.seed},
                                 {"warmup", options.warmup},
                                 {"steps", options.steps},
                                 {"recorded_steps", options.recorded_steps},
                                 {"wait_limit_s", options.wait_limit_s}};
  for (const Layer& layer : spec.model.layers) json["layers"].push_back(layer_json(layer));
  for (const Stage& stage : plan.stages) json["stages"].push_back(stage_json(plan, stage));
  for (const Task& task : plan.graph.tasks) {
    json["tasks"].push_back({{"worker", task.worker},
                             {"kind", kSpanKinds[static_cast<std::size_t>(task.kind)]},
                             {"stage", task.stage},
                             {"microbatch", task.microbatch}});
  }
  return json;
}

RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, const std::string& python,
                      const std::string& command) {
  check_pytorch_run(plan, options);
  const TemporaryFolder folder;
  const std::string asked = folder / "plan.json", record = folder / "record.json", errors = folder / "errors";
  std::ofstream(asked) << pytorch_plan(plan, options);
  const int all = options.warmup + options.steps;
  int done = 0, status = 0;
  {
    ProgressBar bar;
    bar.show("PyTorch starts");
    const Waiting waiting("PyTorch's processes, of which none ends a step");
    Interpreter interpreter({python, script(), asked, record}, errors);
    status = interpreter.run([&](const std::string& line) {
      if (!line.starts_with("step ")) return;
      Waiting::renew();
      ++done;
      bar.show(static_cast<double>(done) / all, "step " + std::to_string(done) + " of " + std::to_string(all));
    });
  }
  const nlohmann::json said = record_of(status, record, errors, python);
  const RunRecord measured = record_from(said["record"]);
  for (std::size_t step = 0; step < measured.losses.size(); ++step) {
    if (!std::isfinite(measured.losses[step]))
      throw CannotRun("the loss of step " + std::to_string(step) + " is not a finite number");
  }
  nlohmann::json environment = describe_environment(options, static_cast<int>(plan.graph.workers), command);
  environment.update(said["environment"]);
  return run_of_record(plan, measured, std::move(environment));
}

}  // namespace pdl
