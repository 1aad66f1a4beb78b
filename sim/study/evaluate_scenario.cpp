#include "sim/study/evaluate_scenario.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/other_program.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/study/measured_runs.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

Scenario run_on(Scenario scenario, const Environment& host) {
  for (RunSpec& spec : scenario.configurations) spec = on_device_of(spec, host);
  for (LeftOutRow& row : scenario.left_out)
    row = {row.number, on_device_of(row.spec, host), on_device_of(row.other, host), row.reason};
  return scenario;
}

/// Measured runs of the configurations, in their order.
using MeasuredRuns = std::vector<std::optional<EvaluatedRun>>;

EvaluatedRun evaluated(RunResult result) {
  RunMetrics metrics = compute_metrics(result);
  return {std::move(result), std::move(metrics)};
}

/// A row by the other program: its settings, or why that program has no such run.
struct OtherSpec {
  std::optional<RunSpec> spec;
  std::string why_not;
};

/// Of each configuration; empty where the rows themselves are of both programs.
std::vector<OtherSpec> by_other_program(const Scenario& scenario, const Environment& host) {
  const ProgramOf own = scenario.configurations.front().program;
  std::vector<OtherSpec> specs;
  for (const RunSpec& spec : scenario.configurations) {
    if (spec.program != own) return {};
    try {
      specs.push_back({on_device_of(by_program(spec, other_of(own)), host), ""});
    } catch (const InputError& error) {
      specs.push_back({std::nullopt, without_place(error.what())});
    }
  }
  return specs;
}

/// What one host has measured of the rows, by their own program and by the other one.
struct MeasuredByBoth {
  MeasuredRuns own, other;
  MeasuredRuns left_out;  // by the other program, of rows that their own cannot run

  bool has_own(std::size_t row) const { return own[row].has_value(); }
  bool has_other(std::size_t row) const { return row < other.size() && other[row].has_value(); }
  std::ptrdiff_t own_count() const {
    return std::count_if(own.begin(), own.end(), [](const auto& run) { return run.has_value(); });
  }
  std::ptrdiff_t other_count() const {
    return std::count_if(other.begin(), other.end(), [](const auto& run) { return run.has_value(); });
  }
  /// Rows that were measured by one of them or by both.
  std::ptrdiff_t row_count() const {
    std::ptrdiff_t count = 0;
    for (std::size_t r = 0; r < own.size(); ++r) count += has_own(r) || has_other(r) ? 1 : 0;
    return count;
  }
};

/// `scenario`: as it runs on the device of the host.
MeasuredByBoth find_measured(const fs::path& folder, const Scenario& scenario, const Environment& host) {
  const auto found = [&](const RunSpec& spec) {
    std::optional<RunResult> run = find_measured(folder, spec);
    return run ? std::optional(evaluated(*std::move(run))) : std::nullopt;
  };
  MeasuredByBoth runs;
  for (const RunSpec& spec : scenario.configurations) runs.own.push_back(found(spec));
  for (const OtherSpec& other : by_other_program(scenario, host))
    runs.other.push_back(other.spec ? found(*other.spec) : std::nullopt);
  for (const LeftOutRow& row : scenario.left_out) runs.left_out.push_back(found(row.other));
  return runs;
}

void warn_of_other_card(const std::optional<EvaluatedRun>& measured, const CostProfile& costs, RunResult& predicted) {
  const std::string other_card = measured ? other_card_text(measured->result.environment, costs.environment) : "";
  if (!other_card.empty()) predicted.warnings.push_back(other_card);
}

RowByOtherProgram row_by_other(const OtherSpec& of_row, const CostProfile& costs, LayerFamilies& families,
                               std::optional<EvaluatedRun> measured) {
  RowByOtherProgram other{std::nullopt, std::move(measured), of_row.why_not};
  if (!of_row.spec) return other;
  try {
    other.predicted = evaluated(predict(*of_row.spec, &costs, {.families = &families}));
    warn_of_other_card(other.measured, costs, other.predicted->result);
  } catch (const InputError& error) {
    other.why_not = error.what();
  } catch (const CannotRun& error) {
    other.why_not = error.what();
  }
  return other;
}

void add_other_program(const CostProfile& costs, LayerFamilies& families, MeasuredByBoth measured,
                       ScenarioTable& table) {
  const std::vector<OtherSpec> specs = by_other_program(table.scenario, costs.host_description);
  for (std::size_t r = 0; r < specs.size(); ++r)
    table.rows[r].other = row_by_other(specs[r], costs, families, std::move(measured.other[r]));
  for (std::size_t r = 0; r < measured.left_out.size(); ++r) {
    table.left_out.push_back(
        row_by_other({table.scenario.left_out[r].other, ""}, costs, families, std::move(measured.left_out[r])));
  }
}

ScenarioTable evaluate(const Scenario& scenario, const CostProfile& costs, MeasuredByBoth measured) {
  ScenarioTable table{scenario, costs.name, {}, false};
  LayerFamilies families(costs);
  for (std::size_t i = 0; i < scenario.configurations.size(); ++i) {
    const RunSpec& spec = scenario.configurations[i];
    try {
      table.rows.push_back(
          {spec, evaluated(predict(spec, &costs, {.families = &families})), std::move(measured.own[i])});
      warn_of_other_card(table.rows.back().measured, costs, table.rows.back().predicted.result);
    } catch (const InputError& error) {
      throw NotInProfile(scenario.path + ": " + describe(spec) + ": " + error.what());
    } catch (const CannotRun& error) {
      throw CannotRun(scenario.path + ": " + error.what());
    }
  }
  if (measured.other_count() > 0) add_other_program(costs, families, std::move(measured), table);
  return table;
}

/// A profile, and what one host with its cards has measured of a scenario.
struct Machine {
  ProfileSummary profile;
  fs::path folder;  // of the runs
  MeasuredByBoth runs;

  bool is_own() const { return folder.filename() == "runs"; }
};

/// Those of data/: most measured runs first; of equals most of the other program's, then the host that
/// the profile was measured on, and the one that is taken before the other by default.
std::vector<Machine> by_measured_runs(const Scenario& scenario, const std::vector<ProfileSummary>& all) {
  std::vector<Machine> machines;
  const std::vector<ProfileSummary> profiles = profiles_by_preference(all);
  const auto add = [&](const ProfileSummary& profile, const fs::path& folder) {
    machines.push_back(
        {profile, folder, find_measured(folder, run_on(scenario, profile.environment), profile.environment)});
  };
  for (const ProfileSummary& profile : profiles) add(profile, runs_folder(profile.path));
  for (const ProfileSummary& profile : profiles) {
    for (const fs::path& folder : runs_of_other_hosts(profile.path)) add(profile, folder);
  }
  std::stable_sort(machines.begin(), machines.end(), [](const Machine& a, const Machine& b) {
    return std::pair(a.runs.own_count(), a.runs.other_count()) > std::pair(b.runs.own_count(), b.runs.other_count());
  });
  return machines;
}

/// `first`: of the tables of a scenario.
std::string reason_for(const Machine& machine, bool first) {
  const std::string rows = std::to_string(machine.runs.row_count()) + " of " + std::to_string(machine.runs.own.size());
  const std::string folder = machine.profile.name + "/" + machine.folder.filename().string();
  if (machine.runs.row_count() == 0) {
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
  return evaluate(here, costs, find_measured(runs_folder(profile), here, costs.host_description));
}

/// A further table is for comparisons: one more row has nothing to be compared with.
constexpr std::size_t kFewestAdded = 2;

std::vector<ScenarioTable> evaluate_on_measured_machines(const Scenario& scenario) {
  std::exception_ptr lacking;
  const std::vector<ProfileSummary> all = list_profiles();
  std::vector<ScenarioTable> tables;
  std::vector<bool> by_own(scenario.configurations.size(), false), by_other = by_own;
  for (const Machine& machine : by_measured_runs(scenario, all)) {
    const bool first = tables.empty();
    std::size_t added = 0;
    const MeasuredByBoth& runs = machine.runs;
    for (std::size_t r = 0; r < by_own.size(); ++r)
      added += (runs.has_own(r) && !by_own[r]) || (runs.has_other(r) && !by_other[r]) ? 1 : 0;
    if (!first && added < kFewestAdded) continue;
    std::optional<ScenarioTable> table = table_of(scenario, machine, first, all, lacking);
    if (!table) continue;
    for (std::size_t r = 0; r < by_own.size(); ++r) {
      by_own[r] = by_own[r] || runs.has_own(r);
      by_other[r] = by_other[r] || runs.has_other(r);
    }
    tables.push_back(first ? std::move(*table) : measured_rows(std::move(*table)));
  }
  if (tables.empty()) std::rethrow_exception(lacking);
  return tables;
}

}  // namespace pdl
