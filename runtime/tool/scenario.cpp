// pdl-run scenario FILE --out FOLDER: measures every configuration of a scenario, one file a run.
//
// Flags of settings replace those of the scenario, as for pdl-sim scenario: --device cpu --dim 256 --batch 32 --gpus
// 1,2.
#include "sim/study/scenario.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "runtime/device/devices.hpp"
#include "runtime/tool/commands.hpp"
#include "runtime/tool/launch.hpp"
#include "runtime/tool/pytorch_run.hpp"
#include "runtime/tool/run_once.hpp"
#include "runtime/tool/runtime_flags.hpp"
#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {
namespace {

struct ScenarioFlags {
  explicit ScenarioFlags(CLI::App& app)
      : runtime(app),
        settings(app),
        out(app, "--out", "FOLDER", "where the files of the runs go; those that are there are kept"),
        python(app, "--python", "PROGRAM", "the interpreter of --program pytorch (default python3)") {
    app.add_option("file", file, "scenario file")->type_name("FILE.json")->required();
  }
  std::string file;
  RuntimeFlags runtime;
  SettingFlags settings;
  OnceFlag out, python;
};

std::vector<std::string> arguments_of(const RunSpec& spec, const RuntimeOptions& options) {
  std::vector<std::string> arguments;
  for (const SettingValue& setting : to_settings(spec)) {
    const bool from_file = spec.model_name != "mlp" && (setting.name == "depth" || setting.name == "dim");
    if (!from_file) arguments.insert(arguments.end(), {"--" + setting.name, setting.value});
  }
  for (const SettingValue& setting : to_settings(options))
    arguments.insert(arguments.end(), {setting.place, setting.value});
  return arguments;
}

std::string command_text(const std::vector<std::string>& arguments) {
  std::string text = "pdl-run";
  for (const std::string& argument : arguments) text += " " + argument;
  return text;
}

void say_step_time(const RunResult& run) {
  std::cout << "  " << fixed(run.step_time.median_ms, 3) << " ms (p25 " << fixed(*run.step_time.p25_ms, 3) << ", p75 "
            << fixed(*run.step_time.p75_ms, 3) << ")\n";
}

/// Measures one configuration into `path`. Returns why it could not be measured; empty: it was.
std::string measure_into(const RunSpec& spec, RuntimeOptions options, std::optional<int> port, PythonProgram& trainer,
                         const std::string& path) {
  options.seed = static_cast<std::uint64_t>(spec.seed);
  options.learning_rate = spec.learning_rate;
  std::vector<std::string> arguments = arguments_of(spec, options);
  const Plan plan = make_plan(spec);
  try {
    if (spec.program == ProgramOf::pytorch) {
      const RunResult run = run_pytorch(plan, options, trainer, command_text(arguments));
      write_run(run, path);
      say_step_time(run);
      return "";
    }
    check_run(plan, options);
    if (spec.workers == Workers::process) {
      arguments.insert(arguments.end(), {"--json", path, "--quiet"});
      const int code = launch_workers(static_cast<int>(spec.gpus), port, arguments);
      if (code != kExitFine) return "its workers failed (exit code " + std::to_string(code) + ")";
      say_step_time(read_run(path));
      return "";
    }
    if (options.device == DeviceKind::cuda) reset_peak_memory(gpu_count());
    const RunResult run = run_once(plan, options, command_text(arguments), nullptr, /*check=*/false);
    write_run(run, path);
    say_step_time(run);
    return "";
  } catch (const InputError& error) {
    return error.what();
  } catch (const CannotRun& error) {
    return error.what();
  }
}

void create_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError("--out", folder + " (" + error.message() + ")", "a folder that can be written to");
}

int measure_scenario(const ScenarioFlags& flags) {
  const RuntimeOptions options = flags.runtime.options();
  limit_waiting(options);
  const std::optional<int> port = flags.runtime.port();
  Scenario scenario = load_scenario(flags.file, scenario_names(), flags.settings.given());
  if (options.device == DeviceKind::cpu) {
    for (RunSpec& spec : scenario.configurations) spec = on_cpu(std::move(spec));
  }
  const auto out = flags.out.value();
  if (!out) throw InputError("--out", "nothing", "a folder for the runs");
  create_folder(*out);
  PythonProgram trainer(flags.python.value().value_or("python3"), "train.py");
  std::vector<std::string> missing;
  std::size_t number = 0;
  for (const RunSpec& spec : scenario.configurations) {
    const std::string name = run_name(spec);
    const std::string path = (std::filesystem::path(*out) / (name + ".json")).string();
    std::cout << ++number << "/" << scenario.configurations.size() << "  " << name << std::endl;
    if (std::filesystem::exists(path)) {
      std::cout << "  kept: the file is there\n";
      continue;
    }
    const std::string reason = measure_into(spec, options, port, trainer, path);
    if (reason.empty()) continue;
    std::cout << "  not measured: " << printable(reason) << "\n";
    missing.push_back(name + ": " + reason);
  }
  if (missing.empty()) return kExitFine;
  std::cerr << "pdl-run: " << missing.size() << " of " << number << " runs of " << scenario.id
            << " were not measured\n";
  for (const std::string& line : missing) std::cerr << "  " << printable(line) << "\n";
  return kExitCannotRun;
}

}  // namespace

void add_scenario(CLI::App& app, ExitCode code) {
  CLI::App* command = app.add_subcommand("scenario", "measure every configuration of a scenario file");
  command->footer(
      "Example: pdl-run scenario scenarios/hw3_4_more_gpus.json --out data/here/runs\n"
      "Exit code 3 if some configurations could not be measured (more GPUs than there are, out of memory).");
  auto flags = std::make_shared<ScenarioFlags>(*command);
  command->callback([flags, code] { *code = measure_scenario(*flags); });
}

}  // namespace pdl
