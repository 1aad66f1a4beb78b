#include "sim/study/evaluate_scenario.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/study/measured_runs.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

Scenario run_on(Scenario scenario, const Environment& host) {
  for (RunSpec& spec : scenario.configurations) spec = on_device_of(spec, host);
  return scenario;
}

/// Measured runs of the configurations, in their order.
using MeasuredRuns = std::vector<std::optional<EvaluatedRun>>;

EvaluatedRun evaluated(RunResult result) {
  RunMetrics metrics = compute_metrics(result);
  return {std::move(result), std::move(metrics)};
}

MeasuredRuns find_measured(const fs::path& folder, const Scenario& scenario) {
  MeasuredRuns runs;
  for (const RunSpec& spec : scenario.configurations) {
    std::optional<RunResult> run = find_measured(folder, spec);
    runs.push_back(run ? std::optional(evaluated(*std::move(run))) : std::nullopt);
  }
  return runs;
}

ScenarioTable evaluate(const Scenario& scenario, const CostProfile& costs, MeasuredRuns measured) {
  ScenarioTable table{scenario, costs.name, {}, false};
  for (std::size_t i = 0; i < scenario.configurations.size(); ++i) {
    const RunSpec& spec = scenario.configurations[i];
    try {
      table.rows.push_back({spec, evaluated(predict(spec, &costs)), std::move(measured[i])});
      ScenarioRow& row = table.rows.back();
      const std::string other_card =
          row.measured ? other_card_text(row.measured->result.environment, costs.environment) : "";
      if (!other_card.empty()) row.predicted.result.warnings.push_back(other_card);
    } catch (const InputError& error) {
      throw NotInProfile(scenario.path + ": " + describe(spec) + ": " + error.what());
    } catch (const CannotRun& error) {
      throw CannotRun(scenario.path + ": " + error.what());
    }
  }
  return table;
}

/// A profile, and what one host with its cards has measured of a scenario.
struct Machine {
  ProfileSummary profile;
  fs::path folder;  // of the runs
  MeasuredRuns runs;

  bool is_own() const { return folder.filename() == "runs"; }
  std::ptrdiff_t measured_count() const {
    return std::count_if(runs.begin(), runs.end(), [](const auto& run) { return run.has_value(); });
  }
};

/// Those of data/: most measured runs first; of equals the host that the profile was measured on, and the one that is
/// taken before the other by default.
std::vector<Machine> by_measured_runs(const Scenario& scenario, const std::vector<ProfileSummary>& all) {
  std::vector<Machine> machines;
  const std::vector<ProfileSummary> profiles = profiles_by_preference(all);
  const auto add = [&](const ProfileSummary& profile, const fs::path& folder) {
    machines.push_back({profile, folder, find_measured(folder, run_on(scenario, profile.environment))});
  };
  for (const ProfileSummary& profile : profiles) add(profile, runs_folder(profile.path));
  for (const ProfileSummary& profile : profiles) {
    for (const fs::path& folder : runs_of_other_hosts(profile.path)) add(profile, folder);
  }
  std::stable_sort(machines.begin(), machines.end(),
                   [](const Machine& a, const Machine& b) { return a.measured_count() > b.measured_count(); });
  return machines;
}

/// `first`: of the tables of a scenario.
std::string reason_for(const Machine& machine, bool first) {
  const std::string rows = std::to_string(machine.measured_count()) + " of " + std::to_string(machine.runs.size());
  const std::string folder = machine.profile.name + "/" + machine.folder.filename().string();
  if (machine.measured_count() == 0) {
    return "no machine in data/ has measured any row, and this is the largest that has what the rows need";
  }
  if (!machine.is_own()) {
    return "the measured runs are those of another host with the same GPUs (" + folder + "), which has measured " +
           (first ? "most rows, " : "further rows, ") + rows;
  }
  return std::string("the machine in data/ that has measured ") + (first ? "most rows, " : "further rows, ") + rows;
}

/// Nothing if the profile lacks what a row needs; then `lacking` is why, if it was not set.
std::optional<ScenarioTable> table_of(const Scenario& scenario, Machine machine, bool first,
                                      const std::vector<ProfileSummary>& all, std::exception_ptr& lacking) {
  try {
    CostProfile costs = load_profile(machine.profile.path);
    say_chosen(costs, reason_for(machine, first), all);
    ScenarioTable table = evaluate(run_on(scenario, costs.host_description), costs, std::move(machine.runs));
    table.of_further_machine = !first;
    return table;
  } catch (const NotInProfile&) {
    if (!lacking) lacking = std::current_exception();
    return std::nullopt;
  }
}

}  // namespace

ScenarioTable evaluate_scenario(const Scenario& scenario, const std::string& profile) {
  const CostProfile costs = load_profile(profile);
  const Scenario here = run_on(scenario, costs.host_description);
  return evaluate(here, costs, find_measured(runs_folder(profile), here));
}

/// A further table is for comparisons: one more row has nothing to be compared with.
constexpr std::size_t kFewestAdded = 2;

std::vector<ScenarioTable> evaluate_on_measured_machines(const Scenario& scenario) {
  std::exception_ptr lacking;
  const std::vector<ProfileSummary> all = list_profiles();
  std::vector<ScenarioTable> tables;
  std::vector<bool> measured(scenario.configurations.size(), false);
  for (const Machine& machine : by_measured_runs(scenario, all)) {
    const bool first = tables.empty();
    std::size_t added = 0;
    for (std::size_t r = 0; r < measured.size(); ++r) added += machine.runs[r] && !measured[r] ? 1 : 0;
    if (!first && added < kFewestAdded) continue;
    std::optional<ScenarioTable> table = table_of(scenario, machine, first, all, lacking);
    if (!table) continue;
    for (std::size_t r = 0; r < measured.size(); ++r) measured[r] = measured[r] || machine.runs[r];
    tables.push_back(first ? std::move(*table) : measured_rows(std::move(*table)));
  }
  if (tables.empty()) std::rethrow_exception(lacking);
  return tables;
}

}  // namespace pdl
