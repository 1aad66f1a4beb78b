// Every column that the table of a scenario may have: its name, head and legend, and what its cells are computed from.
//
//   {"throughput", "throughput", "samples/s", ..., [](const CellPlace& c) { return c.run().metrics.through...; }}
//
// Adding one is a line in scenario_columns.cpp; nothing else is touched.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "sim/report/document.hpp"
#include "sim/study/scenario_table.hpp"

namespace pdl {

/// What one cell is computed from. `measured`: of the two runs of its row; `gpu` counts in columns of GPUs only.
/// `other`: of those by the other program, which then are there.
struct CellPlace {
  const ScenarioTable& table;
  std::size_t row;
  bool measured;
  std::size_t gpu = 0;
  bool other = false;

  const ScenarioRow& scenario_row() const { return table.rows[row]; }
  const EvaluatedRun& run() const {
    const ScenarioRow& row = scenario_row();
    if (other) return measured ? *row.other->measured : *row.other->predicted;
    return measured ? *row.measured : row.predicted;
  }
};

struct ScenarioColumn {
  /// In the file: "step_time_ms". A column of a setting has the name of the setting with '_' for '-' ("no_sync" of
  /// no-sync), and no other column has such a name: tables of several rows leave it out where all have the same value.
  std::string name = {};
  std::string title = {};    // "step time"
  std::string unit = {};     // "ms"
  std::string meaning = {};  // one sentence for the legend; empty: the title says it
  bool per_gpu = false;      // then the table has a row a GPU
  /// One of the two. `setting`: what is decided before anything runs, numbers as numbers. `number`: predicted or
  /// measured; nothing if unknown.
  TableCell (*setting)(const CellPlace&) = nullptr;
  std::optional<double> (*number)(const CellPlace&) = nullptr;
  int digits = 2;
  /// Predicted, measured and (predicted - measured) / measured in per cent, a column each; of both programs, where the
  /// table has runs of both. Other numbers have one
  /// column: of the measured run where the row has one, else of the prediction, which then has a "p" behind it.
  bool with_error = false;
  bool of_plan = false;        // a setting that is read off the plan: a row that no program runs has none
  bool measured_only = false;  // no prediction of it; the column is left out where nothing was measured
  bool of_spans = false;       // read off the spans of one step: measured, of the recorded step
};

std::span<const ScenarioColumn> scenario_columns();

/// The columns and exercises that a scenario may name: what load_scenario() checks it against.
ScenarioNames scenario_names();

}  // namespace pdl
