// pdl-sim scenario FILE... | --all
#include "sim/study/scenario.hpp"

#include <filesystem>
#include <iostream>
#include <memory>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/report/scenario_text.hpp"
#include "sim/study/evaluate_scenario.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct ScenarioFlags {
  explicit ScenarioFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "costs of which machine, and whose measured runs (default: the machine that has measured most of it)"),
        all(app, "--all", "every scenario that came with pdl-sim") {
    app.add_option("files", files, "scenario files")->type_name("FILE.json...");
  }
  std::vector<std::string> files;
  OnceFlag profile;
  Switch all;
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

void print_scenarios(const ScenarioFlags& flags) {
  const bool all = flags.all.on();
  if (all && !flags.files.empty()) throw InputError("--all", flags.files.front() + " beside it", "files, or --all");
  if (!all && flags.files.empty()) throw InputError("scenario", "no file", "FILE.json..., or --all");
  std::vector<Scenario> scenarios;
  for (const std::string& path : all ? scenario_files(scenarios_folder()) : flags.files)
    scenarios.push_back(load_scenario(scenario_path(path), scenario_names()));
  const auto given = flags.profile.value();
  std::string text;
  for (const Scenario& scenario : scenarios) {
    const std::vector<ScenarioTable> tables =
        given ? std::vector{evaluate_scenario(scenario, *given)} : evaluate_on_measured_machines(scenario);
    for (const ScenarioTable& table : tables)
      text += (text.empty() ? "" : "\n\n") + scenario_text(table, screen_width());
  }
  std::cout << text;
}

}  // namespace

void add_scenario(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("scenario", "the table and the answer of one exercise, predicted and measured");
  command->footer("Example: pdl-sim scenario scenarios/hw3_4_more_gpus.json");
  auto flags = std::make_shared<ScenarioFlags>(*command);
  command->callback([flags] { print_scenarios(*flags); });
}

}  // namespace pdl
