// pdl-sim scenario FILE... | --all
#include "sim/report/scenario.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "sim/cost/cost_profile.hpp"
#include "sim/report/evaluate_scenario.hpp"
#include "sim/report/scenario_table.hpp"
#include "sim/spec/error.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct ScenarioFlags {
  explicit ScenarioFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "costs of which machine, and whose measured runs (default: the machine that has measured most of it)"),
        all(app, "--all", "every file of scenarios/") {
    app.add_option("files", files, "scenario files")->type_name("FILE.json...");
  }
  std::vector<std::string> files;
  OnceFlag profile;
  Switch all;
};

/// scenarios/ of the current folder, else of the source tree.
std::string scenarios_folder() {
  return std::filesystem::is_directory("scenarios") ? "scenarios" : PDL_SOURCE_DIR "/scenarios";
}

/// From the bundled profile whose machine has measured most of the scenario; of equals, the default one. A profile that lacks
/// what the scenario needs is passed over, if another has it.
ScenarioTable on_best_measured_machine(const Scenario& scenario) {
  const auto measured = [](const ScenarioTable& table) {
    return std::count_if(table.rows.begin(), table.rows.end(), [](const ScenarioRow& row) { return row.measured.has_value(); });
  };
  std::vector<std::string> profiles = {default_profile_name()};
  for (const ProfileSummary& profile : list_profiles()) {
    if (profile.error.empty() && profile.name != profiles.front()) profiles.push_back(profile.path);
  }
  std::optional<ScenarioTable> best;
  std::exception_ptr lacking;
  for (const std::string& profile : profiles) {
    try {
      ScenarioTable table = evaluate_scenario(scenario, profile);
      if (!best || measured(table) > measured(*best)) best = std::move(table);
    } catch (const NotInProfile&) {
      if (!lacking) lacking = std::current_exception();
    }
  }
  if (!best) std::rethrow_exception(lacking);
  return std::move(*best);
}

void print_scenarios(const ScenarioFlags& flags) {
  const bool all = flags.all.on();
  if (all && !flags.files.empty()) throw InputError("--all", flags.files.front() + " beside it", "files, or --all");
  if (!all && flags.files.empty()) throw InputError("scenario", "no file", "FILE.json..., or --all");
  std::vector<Scenario> scenarios;
  for (const std::string& path : all ? scenario_files(scenarios_folder()) : flags.files)
    scenarios.push_back(load_scenario(path));
  const auto given = flags.profile.value();
  std::string text;
  for (const Scenario& scenario : scenarios) {
    const ScenarioTable table = given ? evaluate_scenario(scenario, *given) : on_best_measured_machine(scenario);
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
