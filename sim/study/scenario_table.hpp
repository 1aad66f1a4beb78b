// The rows of a scenario: each configuration predicted, and measured where there is a run of it.
//
//   ScenarioTable table = evaluate_scenario(scenario, "h100x4");
//   table.rows[2].best().result.step_time.median_ms      // measured if row 3 was, else predicted
//
// Answers (sim/course) and the table that people read (sim/report/scenario_document.hpp) are made from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/run/metrics.hpp"
#include "sim/run/run_result.hpp"
#include "sim/study/scenario.hpp"

namespace pdl {

/// A run with the metrics computed from it.
struct EvaluatedRun {
  RunResult result;
  RunMetrics metrics;
};

struct ScenarioRow {
  RunSpec spec;
  EvaluatedRun predicted;
  std::optional<EvaluatedRun> measured;

  /// Measured where there is a measurement, else predicted.
  const EvaluatedRun& best() const { return measured ? *measured : predicted; }
};

struct ScenarioTable {
  Scenario scenario;
  std::string profile_name;
  std::vector<ScenarioRow> rows;
  /// Beside the table of another machine: only the rows that this one has measured.
  bool of_further_machine = false;

  bool has_measurements() const;
};

/// The rows that were measured.
ScenarioTable measured_rows(ScenarioTable table);

/// The row that speed-ups of `row` refer to: the first one with the same model, batch, rounds and delay.
std::size_t baseline_row(const ScenarioTable& table, std::size_t row);

}  // namespace pdl
