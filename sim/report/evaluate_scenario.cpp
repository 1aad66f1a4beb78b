#include "sim/report/evaluate_scenario.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "sim/cost/cost_profile.hpp"
#include "sim/report/host_bound.hpp"
#include "sim/report/predict.hpp"
#include "sim/report/run_json.hpp"
#include "sim/report/run_name.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

Scenario run_on(Scenario scenario, const Environment& host) {
  if (host.device != "cpu") return scenario;
  for (RunSpec& spec : scenario.configurations) spec = on_cpu(std::move(spec));
  return scenario;
}

/// Measured runs of the configurations, in their order.
using MeasuredRuns = std::vector<std::optional<EvaluatedRun>>;

/// `profile`: a name or a path.
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

MeasuredRuns find_measured(const fs::path& folder, const Scenario& scenario) {
  MeasuredRuns runs;
  for (const RunSpec& spec : scenario.configurations) runs.push_back(find_measured(folder, spec));
  return runs;
}

ScenarioTable evaluate(const Scenario& scenario, const CostProfile& costs, MeasuredRuns measured) {
  ScenarioTable table{scenario, costs.name, {}};
  for (std::size_t i = 0; i < scenario.configurations.size(); ++i) {
    const RunSpec& spec = scenario.configurations[i];
    try {
      const Plan plan = plan_of(spec, &costs);
      table.rows.push_back({spec, evaluated(predict_and_judge_host(plan, &costs)), std::move(measured[i])});
    } catch (const InputError& error) {
      throw NotInProfile(scenario.path + ": " + describe(spec) + ": " + error.what());
    } catch (const CannotRun& error) {
      throw CannotRun(scenario.path + ": " + error.what());
    }
  }
  return table;
}

/// A profile and what its machine has measured of a scenario.
struct Machine {
  std::string profile_path;
  MeasuredRuns runs;

  std::ptrdiff_t measured_count() const {
    return std::count_if(runs.begin(), runs.end(), [](const auto& run) { return run.has_value(); });
  }
};

/// Those of data/: most measured runs first, of equals the one that is taken before the other by default.
std::vector<Machine> by_measured_runs(const Scenario& scenario, const std::vector<ProfileSummary>& all) {
  std::vector<Machine> machines;
  for (const ProfileSummary& profile : profiles_by_preference(all)) {
    machines.push_back({profile.path, find_measured(runs_folder(profile.path), run_on(scenario, profile.environment))});
  }
  std::stable_sort(machines.begin(), machines.end(),
                   [](const Machine& a, const Machine& b) { return a.measured_count() > b.measured_count(); });
  return machines;
}

std::string reason_for(const Machine& machine) {
  if (machine.measured_count() == 0) {
    return "no machine in data/ has measured any row, and this is the largest that has what the rows need";
  }
  return "the machine in data/ that has measured most rows, " + std::to_string(machine.measured_count()) + " of " +
         std::to_string(machine.runs.size());
}

}  // namespace

ScenarioTable evaluate_scenario(const Scenario& scenario, const std::string& profile) {
  const CostProfile costs = load_profile(profile);
  const Scenario here = run_on(scenario, costs.host_description);
  return evaluate(here, costs, find_measured(runs_folder(profile), here));
}

ScenarioTable evaluate_on_best_measured_machine(const Scenario& scenario) {
  std::exception_ptr lacking;
  const std::vector<ProfileSummary> all = list_profiles();
  for (Machine& machine : by_measured_runs(scenario, all)) {
    try {
      CostProfile costs = load_profile(machine.profile_path);
      say_chosen(costs, reason_for(machine), all);
      return evaluate(run_on(scenario, costs.host_description), costs, std::move(machine.runs));
    } catch (const NotInProfile&) {
      if (!lacking) lacking = std::current_exception();
    }
  }
  std::rethrow_exception(lacking);
}

}  // namespace pdl
