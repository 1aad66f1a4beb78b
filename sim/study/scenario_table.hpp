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

/// A row by the other program, pdl-run's or PyTorch's.
struct RowByOtherProgram {
  std::optional<EvaluatedRun> predicted, measured;
  std::string why_not;  // where it is not predicted: what that program, or the profile, has not
};

struct ScenarioRow {
  RunSpec spec;
  EvaluatedRun predicted;
  std::optional<EvaluatedRun> measured;
  std::optional<RowByOtherProgram> other{};  // in tables that have measured runs of the other program

  /// Measured where there is a measurement, else predicted.
  const EvaluatedRun& best() const { return measured ? *measured : predicted; }
};

/// PyTorch's of pdl-run's, and the other way.
inline ProgramOf other_of(ProgramOf program) {
  return program == ProgramOf::pdl ? ProgramOf::pytorch : ProgramOf::pdl;
}

struct ScenarioTable {
  Scenario scenario;
  std::string profile_name;
  std::vector<ScenarioRow> rows;
  /// Beside the table of another machine: only the rows that this one has measured.
  bool of_further_machine = false;

  /// Of each row that is left out, where `rows` have the other program too.
  std::vector<RowByOtherProgram> left_out{};

  bool has_measurements() const;
  /// Whose program all rows are of; the other one where a row was measured by it.
  ProgramOf program() const { return rows.front().spec.program; }
  std::optional<ProgramOf> other_program() const;
};

/// The rows that were measured, by either program.
ScenarioTable measured_rows(ScenarioTable table);

/// From 1, as all tables of the scenario name it: rows that are left out are counted.
std::size_t row_number(const ScenarioTable& table, std::size_t row);

/// The row that speed-ups of `row` refer to: the first one with the same model, batch, rounds and delay.
std::size_t baseline_row(const ScenarioTable& table, std::size_t row);

}  // namespace pdl
