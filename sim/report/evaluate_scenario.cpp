#include "sim/report/evaluate_scenario.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "sim/report/predict.hpp"
#include "sim/report/run_json.hpp"
#include "sim/report/run_name.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

fs::path runs_folder(const std::string& profile) {
  const std::vector<ProfileSummary> named = list_profiles();
  const auto found =
      std::find_if(named.begin(), named.end(), [&](const ProfileSummary& p) { return p.name == profile; });
  const fs::path path = found != named.end() ? fs::path(found->path) : fs::path(profile);
  return (fs::is_directory(path) ? path : path.parent_path()) / "runs";
}

EvaluatedRun evaluated(RunResult result) {
  RunMetrics metrics = compute_metrics(result);
  return {std::move(result), std::move(metrics)};
}

std::optional<EvaluatedRun> find_measured(const fs::path& folder, const RunSpec& spec) {
  const fs::path path = folder / (run_name(spec) + ".json");
  if (!fs::exists(path)) return std::nullopt;
  RunResult run = read_run(path.string());
  if (!run.measured || !same_run(run.spec, spec)) {
    throw InputError(path.string(), run.measured ? describe(run.spec) : "a predicted run",
                     "a measured run of " + describe(spec));
  }
  return evaluated(std::move(run));
}

}  // namespace

ScenarioTable evaluate_scenario(const Scenario& scenario, const std::string& profile) {
  const CostProfile costs = load_profile(profile);
  const fs::path folder = runs_folder(profile);
  ScenarioTable table{scenario, costs.name, {}};
  for (const RunSpec& spec : scenario.configurations) {
    try {
      table.rows.push_back({spec, evaluated(predict(spec, &costs)), std::nullopt});
    } catch (const InputError& error) {
      throw NotInProfile(scenario.path + ": " + describe(spec) + ": " + error.what());
    } catch (const CannotRun& error) {
      throw CannotRun(scenario.path + ": " + error.what());
    }
    table.rows.back().measured = find_measured(folder, spec);
  }
  return table;
}

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
  const std::string reason = measured(*best) == 0 ? "no machine in data/ has measured any row, and this is the largest that has what the rows need"
                                                  : "the machine in data/ that has measured most rows, " + std::to_string(measured(*best)) + " of " + std::to_string(best->rows.size());
  for (ScenarioRow& row : best->rows) {
    nlohmann::json& environment = row.predicted.result.environment;
    if (environment.is_object() && environment.contains("profile")) environment["profile"]["chosen_as"] = reason;
  }
  return std::move(*best);
}

}  // namespace pdl
