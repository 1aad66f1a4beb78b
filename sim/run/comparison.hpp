// Two runs, number by number: usually the prediction and the measurement of one configuration.
//
//   compared_quantities(a, ...)    {"step_time_ms", "step time", "ms", 3, 52.110, 52.034}, {"throughput_...", ...
//   settings_that_differ(...)      {"microbatches", "8", "16"}
//
// Runs of different configurations may be compared too. The table that people read: sim/report/compare_document.hpp.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/metrics.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// One number of a run, of both runs.
struct ComparedQuantity {
  std::string key;    // in JSON
  std::string title;  // in the table
  std::string unit;
  int digits = 3;
  std::optional<double> a, b;
};

/// Of the whole run, then the mean length of each kind of task that either has. `ma`, `mb`: their metrics.
std::vector<ComparedQuantity> compared_quantities(const RunResult& a, const RunMetrics& ma, const RunResult& b,
                                                  const RunMetrics& mb);

/// A measured step beside the error bar of the prediction of the same configuration.
struct MeasuredInPrediction {
  double measured_ms = 0;
  double predicted_ms = 0;
  double half_width_ms = 0;
  bool inside = false;  // |measured - predicted| <= half width
};

/// Nothing unless one of the two is measured, the other a prediction of the same settings that has an error bar.
std::optional<MeasuredInPrediction> measured_in_prediction(const RunResult& a, const RunResult& b);

/// "-": the run has no such setting.
struct SettingDifference {
  std::string name, a, b;
};

/// In the order of all_settings(); the usual values too, which files of runs leave out.
std::vector<SettingDifference> settings_that_differ(const RunSpec& a, const RunSpec& b);

/// Two programs of the same step: what else differs is how each of them has its workers, and what moves data between
/// them.
bool differ_in_program_alone(const RunSpec& a, const RunSpec& b);

/// {"a": "a.json", "b": "b.json", "settings_that_differ": [...], "step_time_ms": {"a", "b", "difference_percent"}, ...}
/// `name_a`, `name_b`: what the runs are called, the paths of their files. "measured_inside": measured_in_prediction().
nlohmann::ordered_json compare_json(const RunResult& a, const std::string& name_a, const RunResult& b,
                                    const std::string& name_b);

}  // namespace pdl
