// From a scenario to its table: every configuration predicted, and beside it the measured run where there is one.
//
//   ScenarioTable table = evaluate_scenario(load_scenario(path), "h100x4");
//   // looks for data/h100x4/runs/<run_name(spec)>.json
#pragma once

#include <string>

#include "sim/report/scenario_table.hpp"

namespace pdl {

/// `profile`: a name or path as load_profile takes it; measured runs are those in the folder runs/ beside its file.
/// Throws InputError and CannotRun as predict(), with the configuration named; InputError if a file of that name holds
/// another run.
ScenarioTable evaluate_scenario(const Scenario& scenario, const std::string& profile);

}  // namespace pdl
