// The table of a scenario: a row a configuration, predicted beside measured; and a second one, a row a GPU.
//
//   row  GPUs       step      step  error   speed-up  speed-up
//                   time      time         predicted  measured
//              predicted  measured
//                     ms        ms      %
//   ----------------------------------------------------------
//     1     2       7.47      7.55   -1.0       1.00      1.00
//     2     5       7.49         -      -       1.00         -
//
// Behind a number "r": read off a recorded step that was unlike the median one; the legend says how much.
//
// A column is a line of a table of functions in scenario_columns.cpp: adding one touches nothing else.
#pragma once

#include <optional>
#include <span>
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

/// What one cell is computed from. `side` picks predicted or measured; `gpu` counts in columns of GPUs only.
struct CellPlace {
  const ScenarioTable& table;
  std::size_t row;
  bool measured;
  std::size_t gpu = 0;

  const ScenarioRow& scenario_row() const { return table.rows[row]; }
  const EvaluatedRun& run() const { return measured ? *scenario_row().measured : scenario_row().predicted; }
};

struct ScenarioColumn {
  /// In the file: "step_time_ms". A column of a setting has the name of the setting with '_' for '-' ("no_sync" of
  /// no-sync), and no other column has such a name: tables of several rows leave it out where all have the same value.
  std::string name;
  std::string title;    // "step time"; may be of several lines, "step\ntime"
  std::string unit;     // "ms"
  std::string meaning;  // one line for the legend; empty: the title says it
  bool per_gpu = false;
  /// One of the three. `text`: what is decided before anything runs. `text_of_run`, `number`: predicted beside
  /// measured; nothing if unknown.
  std::string (*text)(const CellPlace&) = nullptr;
  std::optional<double> (*number)(const CellPlace&) = nullptr;
  int digits = 2;
  bool with_error = false;  // also (predicted - measured) / measured, in per cent
  std::string (*text_of_run)(const CellPlace&) = nullptr;
  bool measured_only = false;  // no prediction of it; the column is left out where nothing was measured
  /// Read off the spans of one step. Measured, that is the recorded step: "23.1 r" where it was unlike the median one
  /// (unusual_recording()).
  bool of_spans = false;
};

std::span<const ScenarioColumn> scenario_columns();

/// Title, question, tables, legend, answer. `width`: columns of the terminal, for the sentences.
std::string scenario_text(const ScenarioTable& table, std::size_t width);

/// Activations that the GPU with most of them keeps at once: pairs of a stage and a micro-batch.
std::int32_t most_live(const RunResult& run);

/// The row that speed-ups of `row` refer to: the first one with the same model, batch, rounds and
/// delay.
std::size_t baseline_row(const ScenarioTable& table, std::size_t row);

/// How many transfers of the step, and how many bytes, belong to forward passes.
struct ForwardTransfers {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
ForwardTransfers forward_transfers(const RunResult& run);

}  // namespace pdl
