// From a scenario to its table: every configuration predicted, and beside it the measured run where there is one.
//
//   ScenarioTable table = evaluate_scenario(scenario, "h100x4");
//   // looks for data/h100x4/runs/<run_name(spec)>.json
#pragma once

#include <string>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/study/scenario_table.hpp"

namespace pdl {

/// A profile lacks what a configuration needs: another profile may have it.
class NotInProfile : public InputError {
 public:
  using InputError::InputError;
};

/// `profile`: a name or path as load_profile takes it; measured runs are those in the folder runs/ beside its file.
/// Where there are runs of the rows by the other program too (PyTorch's, of rows of pdl-run's), each row has that
/// program's prediction and run beside its own (ScenarioRow::other).
///
/// Throws what load_profile() and predict() do, with the configuration named, InputError of predict() as NotInProfile;
/// InputError if a file of that name holds another run.
ScenarioTable evaluate_scenario(const Scenario& scenario, const std::string& profile);

/// Numbers of different machines are never in one table. The first one has all rows, predicted from the bundled profile
/// whose host, or another host with its cards (runs_on_host_* beside it), has measured most of them, and the
/// predictions say so; of equals, the first of profiles_by_preference(). Then a table for each host that has measured
/// two rows or more that none before it has, by either program, of the rows that it has measured. A profile that lacks
/// what a row needs is passed over, if another has it. Throws InputError if data/ has no profile that can be read, or a
/// file of runs holds another run than its name says; NotInProfile, of the first profile tried, if every one lacks
/// something; CannotRun as predict() does with the profile taken.
std::vector<ScenarioTable> evaluate_on_measured_machines(const Scenario& scenario);

}  // namespace pdl
