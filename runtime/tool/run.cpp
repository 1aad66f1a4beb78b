// pdl-run without a subcommand: one training, measured.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/rendezvous.hpp"
#include "runtime/comm/same_settings.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/tool/commands.hpp"
#include "runtime/tool/launch.hpp"
#include "runtime/tool/pytorch_run.hpp"
#include "runtime/tool/run_once.hpp"
#include "runtime/tool/runtime_flags.hpp"
#include "sim/io/error.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/trace.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_json.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

constexpr int kDefaultMasterPort = 29500;  // torchrun's, for launchers that name none

struct RunFlags {
  explicit RunFlags(CLI::App& app)
      : runtime(app),
        json(app, "--json", "FILE|-", "write the run as JSON; -: to standard output, without the table"),
        trace(app, "--trace", "FILE|-", "write the recorded step as a trace that Perfetto opens (ui.perfetto.dev)"),
        outputs(app, {.json = false}),
        explain(app, "--explain", "where the recorded step goes: its parts and the critical path"),
        quiet(app, "--quiet", "no table of the run on standard output"),
        check(app, "--check", "afterwards train the same model plainly on one device and compare the parameters"),
        python(app, "--python", "PROGRAM", "the interpreter of --program pytorch (default python3)"),
        settings(app) {}

  /// Outputs that are not of the document.
  std::vector<const OnceFlag*> files() const { return {&json, &trace}; }
  bool has(const std::string& name) const { return find_setting(settings.given(), name) != nullptr; }

  RuntimeFlags runtime;
  OnceFlag json, trace;
  OutputFlags outputs;
  Switch explain;
  Switch quiet;
  Switch check;
  OnceFlag python;
  SettingFlags settings;
};

/// What was typed, and what goes without saying: a process of a group knows how many there are.
RunSpec complete_spec(std::vector<SettingValue> values, DeviceKind device, std::optional<int> port) {
  const auto is = [&](const char* name, const char* value) {
    const SettingValue* setting = find_setting(values, name);
    return setting && setting->value == value;
  };
  if ((is("strategy", "ddp") || is("workers", "process")) && !find_setting(values, "gpus")) {
    if (const auto process = process_rank(port.value_or(kDefaultMasterPort))) {
      values.push_back({"gpus", std::to_string(process->world_size), "--gpus"});
    }
  }
  RunSpec spec = parse_run_spec(values);
  return device == DeviceKind::cpu ? on_cpu(std::move(spec)) : spec;
}

/// What was typed, for the record. Where the result goes and how it is shown is no part of what was measured.
std::string command_text(const std::vector<std::string>& arguments) {
  const auto is_output = [](const std::string& argument, const std::string& end) {
    for (const char* flag : {"--json", "--trace", "--csv", "--markdown", "--html"}) {
      if (end.empty() ? argument == flag : argument.starts_with(flag + end)) return true;
    }
    return false;
  };
  std::string text = "pdl-run";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool shown = argument == "--quiet" || argument == "--explain" || argument == "--warnings";
    if (is_output(argument, "")) {
      ++i;
    } else if (!is_output(argument, "=") && !shown) {
      text += " " + argument;
    }
  }
  return text;
}

/// The process group that this process is one of, if any. Variables that a batch system has left in the environment do
/// not make a worker of a run that is not of processes; those of a launcher of processes do, and contradict it.
std::optional<ProcessRank> own_rank(const RunSpec& spec, std::optional<int> port) {
  const std::optional<ProcessRank> process = process_rank(port.value_or(kDefaultMasterPort));
  if (!process) return std::nullopt;
  const std::string started = "one of " + std::to_string(process->world_size) + " processes";
  if (spec.workers != Workers::process) {
    if (!std::getenv("RANK") && !std::getenv("OMPI_COMM_WORLD_RANK")) return std::nullopt;
    throw InputError("--workers", to_string(spec.workers) + " in " + started, "process");
  }
  if (process->world_size != spec.gpus) {
    throw InputError("--gpus", std::to_string(spec.gpus) + " in " + started, std::to_string(process->world_size));
  }
  return process;
}

/// The run is written before anything can be said against its explanation.
void show(RunResult measured, const RunFlags& flags) {
  const auto run = std::make_shared<const RunResult>(std::move(measured));
  const std::optional<Explanation> explanation = flags.explain.on() ? explain(*run) : std::nullopt;
  const Explanation* shown = explanation ? &*explanation : nullptr;
  if (const auto json = flags.json.value()) write_run(*run, *json, shown);
  if (const auto trace = flags.trace.value()) write_trace(*trace, traced_runs(*run));
  if (flags.explain.on() && !shown) throw std::logic_error("a measured run whose spans are not those of its plan");
  flags.outputs.show(run_document(run, screen_style(false), shown), flags.files(), flags.quiet.on());
}

/// On how many hosts the workers are: as many as was said, or, where nothing was, as many as there are.
void check_hosts(RunSpec& spec, int hosts, bool given) {
  if (hosts > 1 && resolve(spec).program != Program::ddp) {
    throw InputError("--workers", "processes on " + std::to_string(hosts) + " hosts", "one host, or --strategy ddp");
  }
  if (given && spec.hosts != hosts) {
    throw InputError("--hosts", std::to_string(spec.hosts),
                     std::to_string(hosts) + ": the workers are on so many hosts");
  }
  if (spec.gpus % hosts != 0) {
    throw InputError("--gpus", std::to_string(spec.gpus) + " on " + std::to_string(hosts) + " hosts",
                     "as many on each");
  }
  spec.hosts = hosts;
}

/// Everything that all workers must have been given alike. Files count by what is in them.
std::vector<SettingValue> common_settings(const RunSpec& spec, const RuntimeOptions& options, bool check) {
  std::vector<SettingValue> settings = to_settings(options);
  settings.push_back({"check", check ? "1" : "0", "--check"});
  const auto with_contents = [](const std::string& path, const std::string& contents) {
    char text[32];
    std::snprintf(text, sizeof text, " (contents %zx)", std::hash<std::string>()(contents));
    return path + text;
  };
  for (SettingValue setting : to_settings(spec)) {
    if (setting.name == "model" && spec.model_name != "mlp") {
      std::string layers;
      for (const Layer& layer : spec.model.layers) layers += to_text(layer) + ", ";
      setting.value = with_contents(setting.value, layers);
    }
    if (setting.name == "schedule" && spec.schedule_file)
      setting.value = with_contents(setting.value, to_csv(*spec.schedule_file));
    settings.push_back(std::move(setting));
  }
  return settings;
}

/// One worker of several. A failure ends the process at once: the others may hang in what they wait for, and so might
/// the destructors here.
int run_worker(Plan plan, RuntimeOptions options, const ProcessRank& process, const RunFlags& flags,
               const std::string& command) {
  options.rank = process.rank;
  // A launcher may show each process a GPU of its own, or all of them.
  const int device = options.device == DeviceKind::cuda && gpu_count() == 1 ? 0 : process.local_rank;
  options.device_indices.assign(static_cast<std::size_t>(process.world_size), device);
  const auto fail = [&](const std::exception& error, int code) {
    std::cerr << "pdl-run: worker " + std::to_string(process.rank) + ": " + printable(error.what()) + "\n";
    std::cerr.flush();
    std::_Exit(code);
  };
  try {
    check_run(plan, options);
    Rendezvous rendezvous(process);
    check_same_settings(rendezvous, common_settings(plan.spec, options, flags.check.on()));
    refuse_together(rendezvous, [&] { check_hosts(plan.spec, rendezvous.hosts(), flags.has("hosts")); });
    const RunResult run = run_once(plan, options, command, &rendezvous, flags.check.on());
    if (process.rank == 0) show(run, flags);
    rendezvous.finish();
  } catch (const InputError& error) {
    fail(error, kExitInput);
  } catch (const PeerLost& error) {
    fail(error, process.watched ? kExitPeerLost : kExitCannotRun);
  } catch (const CannotRun& error) {
    fail(error, kExitCannotRun);
  } catch (const std::exception& error) {
    fail(error, kExitBug);
  }
  return kExitFine;
}

int run_command(const RunFlags& flags, const std::vector<std::string>& arguments) {
  RuntimeOptions options = flags.runtime.options();
  limit_waiting(options);
  const std::optional<int> port = flags.runtime.port();
  const RunSpec spec = complete_spec(flags.settings.given(), options.device, port);
  options.seed = static_cast<std::uint64_t>(spec.seed);
  options.learning_rate = spec.learning_rate;
  const bool check = flags.check.on();
  flags.outputs.check(flags.files());
  if (check && has_dropout(spec.model))
    throw InputError("--check", "a model with dropout", "one without: two trainings draw other masks");
  const Plan plan = make_plan(spec);
  const std::string command = command_text(arguments);
  if (spec.program == ProgramOf::pytorch) {
    if (own_rank(spec, port)) {
      throw InputError("--program", "pytorch in one of " + std::to_string(spec.gpus) + " processes",
                       "one process of pdl-run, which starts PyTorch's");
    }
    if (port) throw InputError("--port", "program pytorch", "program pdl: PyTorch's processes find a port");
    if (check) throw InputError("--check", "program pytorch", "program pdl, whose training it checks");
    PythonProgram trainer(flags.python.value().value_or("python3"), "train.py");
    show(run_pytorch(plan, options, trainer, command), flags);
    return kExitFine;
  }
  if (flags.python.value()) throw InputError("--python", "program pdl", "--program pytorch, which runs in Python");
  if (const auto process = own_rank(spec, port)) return run_worker(plan, options, *process, flags, command);
  check_run(plan, options);
  if (spec.workers == Workers::process) return launch_workers(static_cast<int>(spec.gpus), port, arguments);
  if (port)
    throw InputError("--port", std::to_string(*port) + " with --workers " + to_string(spec.workers),
                     "--workers process");
  show(run_once(plan, options, command, nullptr, check), flags);
  return kExitFine;
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& arguments, ExitCode code) {
  auto flags = std::make_shared<RunFlags>(app);
  app.callback([&app, flags, arguments, code] {
    const auto subcommands = app.get_subcommands();
    if (subcommands.empty()) {
      *code = run_command(*flags, arguments);
      return;
    }
    const std::string subcommand = subcommands.front()->get_name();
    if (arguments.front() == subcommand) return;
    throw InputError(arguments.front(), "given before " + subcommand, "flags of " + subcommand + " after it");
  });
}

}  // namespace pdl
