// One run, predicted or measured: what every view (JSON, table, Gantt, comparison) draws from.
//
//   RunResult predicted = predict(spec, &profile);    // sim/predict/predict.hpp
//   write_run(predicted, "predicted.json");           // sim/run/run_json.hpp
//
// Both executors fill the same fields, so that a comparison is a function of two results.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/error_bar.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

struct StepTime {
  double median_ms = 0;
  // Measured runs only.
  std::optional<double> p25_ms;
  std::optional<double> p75_ms;
  std::optional<std::int64_t> n;
};

/// One step of a measured run, as it came.
struct MeasuredStep {
  double step_time_ms = 0;
  std::optional<double> loss;  // nothing: the program did not know it
  bool warmup = false;         // one of the first, which are in no median
};

/// Step times of a prediction that were drawn (sim/predict/noise.hpp).
struct StepDistribution {
  std::int64_t draws = 0;
  std::int64_t seed = 0;
  double p10_ms = 0;
  double p50_ms = 0;
  double p90_ms = 0;
  bool operator==(const StepDistribution&) const = default;
};

/// How long the GPUs are at something in a step.
struct NamedTime {
  std::string name;       // "linear", "optimizer"
  double ms = 0;          // mean over the GPUs
  bool overlaps = false;  // communication, at its whole length: it may run beside the others, and is in none of them
  bool operator==(const NamedTime&) const = default;
};

struct RunResult {
  RunSpec spec;
  std::vector<Stage> stages;
  std::vector<std::int64_t> replica_rows;     // as Plan has them
  std::vector<std::int64_t> microbatch_rows;  // as Plan has them
  std::vector<LiveActivations> live;          // by GPU; empty in runs written before it was known
  bool measured = false;
  StepTime step_time;
  std::vector<MeasuredStep> steps;  // all of a measured run, warm-up first; empty in predictions and in older runs
  Timeline timeline;                // of the predicted step, or of the measured step nearest to the median
  std::vector<std::int64_t> transfer_bytes;     // of every transfer of the step, in the order of the plan
  std::vector<std::int64_t> collective_bytes;   // of every collective of the step, once however many GPUs take part
  std::vector<std::int64_t> peak_memory_bytes;  // one a GPU; empty: not known
  /// Predicted runs: the step of the same order with its compute costs alone, no transfers, no host, no optimizer: what
  /// the schedule itself costs.
  std::optional<double> bound_ms;
  /// Predictions by a profile: the share of the step that a host which took no time would save
  /// (sim/predict/host_bound.hpp). Not in the JSON, whose warnings say where it is large.
  std::optional<double> host_share;
  /// Predictions by a profile: how far the step time may be off. Nothing where that is not known.
  std::optional<ErrorBar> error_bar;
  /// Predictions by a profile: device time by kind of layer, the longest first; then "loss", "optimizer", "other" and
  /// "rest", with which all that do not overlap add up to the step (sim/predict/times_by_kind.hpp); then what overlaps,
  /// "transfers" and "collectives". Empty: not known.
  std::vector<NamedTime> layer_kinds;
  /// The same by part of the model: "embedding", "attention", "mlp", "layers", "head"; without what overlaps.
  std::vector<NamedTime> layer_parts;
  /// Predictions with --noise.
  std::optional<StepDistribution> noise;
  /// Where the error bar rests on what no probe measured: the command line that has the shapes of the run probed. Else
  /// empty.
  std::string probe_command;
  /// Predictions: what the libraries of a GPU hold by the profile.
  std::optional<WorkspaceBytes> workspaces;
  std::vector<std::string> warnings;
  /// Of the warnings about prices that were not measured: how much of the step's work rests on each, in 0..1
  /// (sim/cost/notice_shares.hpp).
  std::map<std::string, double> warning_shares;
  nlohmann::json environment;  // measured: card, count, versions, clocks, date, command; predicted: the profile's name
  nlohmann::json extra;        // further measured facts, e.g. {"losses": [...], "recording": {...}}; null if none
};

/// What both executors know before anything has run: spec, stages, micro-batches, bytes of each transfer (one a send,
/// in the order of the plan), warnings.
RunResult begin_result(const Plan& plan);

/// Of the step time of a prediction: 90 % of measured steps lie within. Nothing where it has no error bar.
std::optional<double> half_width_ms(const RunResult& run);

/// Does the median step of a measured run lie within what a prediction says? Nothing where it has no error bar.
std::optional<bool> lies_inside(const RunResult& predicted, const RunResult& measured);

/// Activations that the GPU with most of them keeps at once: pairs of a stage and a micro-batch.
std::int32_t most_live(const RunResult& run);

}  // namespace pdl
