// pdl-sim scenario FILE... | --all
//
// --program pytorch predicts PyTorch's program of every row that it has. Other flags of settings replace those of
// the scenario: --dim 256 --batch 32, and a list where it varies them (--gpus 1,2).
#include "sim/study/scenario.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/report/scenario_document.hpp"
#include "sim/study/evaluate_scenario.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

struct ScenarioFlags {
  explicit ScenarioFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "costs of which machine, and whose measured runs (default: the machine that has measured most of it)"),
        all(app, "--all", "every exercise that came with pdl-sim"),
        settings(app),
        outputs(app, {}) {
    app.add_option("files", files, "scenario files")->type_name("FILE.json...");
  }
  std::vector<std::string> files;
  OnceFlag profile;
  Switch all;
  SettingFlags settings;
  OutputFlags outputs;
};

/// The one that came with pdl-sim, whatever folders there are where it is run.
std::string scenarios_folder() {
  const std::string folder = bundled_folder("scenarios");
  if (folder.empty()) throw InputError("--all", "no folder scenarios/ that came with pdl-sim", "FILE.json...");
  return folder;
}

/// The file itself, or of no such file the scenario of that name that came with pdl-sim: hw3_4_more_gpus, with or
/// without .json.
std::string scenario_path(const std::string& given) {
  if (std::filesystem::exists(given)) return given;
  const std::filesystem::path bundled = bundled_folder("scenarios"), name = std::filesystem::path(given).filename();
  for (const std::filesystem::path& path : {bundled / name, bundled / (name.string() + ".json")}) {
    if (!bundled.empty() && std::filesystem::exists(path)) return path.string();
  }
  return given;
}

/// A given setting, which then is not in the list any more.
std::optional<SettingValue> taken(std::vector<SettingValue>& given, const std::string& name) {
  const auto found = std::find_if(given.begin(), given.end(), [&](const SettingValue& s) { return s.name == name; });
  if (found == given.end()) return std::nullopt;
  const SettingValue setting = *found;
  given.erase(found);
  return setting;
}

/// Of --all: the exercises, without the sets of runs by which predictions are validated.
std::vector<Scenario> chosen_scenarios(const ScenarioFlags& flags) {
  const bool all = flags.all.on();
  if (all && !flags.files.empty()) throw InputError("--all", flags.files.front() + " beside it", "files, or --all");
  if (!all && flags.files.empty()) throw InputError("scenario", "no file", "FILE.json..., or --all");
  std::vector<SettingValue> given = flags.settings.given();
  const std::optional<SettingValue> program = taken(given, "program");
  if (all && !given.empty())
    throw InputError(given.front().place, "with --all", "one exercise, whose settings these are");
  std::vector<Scenario> scenarios;
  for (const std::string& path : all ? scenario_files(scenarios_folder()) : flags.files) {
    Scenario scenario = load_scenario(scenario_path(path), scenario_names(), given);
    if (program) scenario = of_program(std::move(scenario), parse_run_spec({&*program, 1}).program, program->place);
    scenarios.push_back(std::move(scenario));
    if (all && scenarios.back().answer.empty()) scenarios.pop_back();
  }
  return scenarios;
}

std::vector<Tables> evaluate_with_progress(const std::vector<Scenario>& scenarios,
                                           const std::optional<std::string>& profile) {
  ProgressBar bar;
  std::vector<Tables> exercises;
  for (const Scenario& scenario : scenarios) {
    bar.show(static_cast<double>(exercises.size()) / static_cast<double>(scenarios.size()), printable(scenario.id));
    exercises.push_back(profile ? std::vector{evaluate_scenario(scenario, *profile)}
                                : evaluate_on_measured_machines(scenario));
  }
  return exercises;
}

void show_scenarios(const ScenarioFlags& flags) {
  flags.outputs.check();
  const auto profile = flags.profile.value();
  const std::vector<Scenario> scenarios = chosen_scenarios(flags);
  flags.outputs.show(scenario_document(evaluate_with_progress(scenarios, profile)));
}

}  // namespace

void add_scenario(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("scenario", "the answers and the table of an exercise, predicted and measured");
  command->footer(
      "Example: pdl-sim scenario scenarios/hw3_4_more_gpus.json\n"
      "Example: pdl-sim scenario hw1_2_strong_scaling --dim 256 --batch 32 --depth 2 --gpus 1,2\n"
      "Example: pdl-sim scenario hw4_pipeline --program pytorch\n"
      "Example: pdl-sim scenario --all --html book.html");
  auto flags = std::make_shared<ScenarioFlags>(*command);
  command->callback([flags] { show_scenarios(*flags); });
}

}  // namespace pdl
