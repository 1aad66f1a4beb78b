// What holds of every prediction, whatever was asked.
//
//   check_prediction(predict(spec("--gpus 2 --tf 1 --tb 2"), nullptr));
#pragma once

#include <numeric>

#include "sim/predict/predict.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "tests/fuzz/fuzzing.hpp"

namespace pdl {

/// Spans lie within the step, those of one stream one after the other.
inline void check_spans(const RunResult& run) {
  for (const Span& span : run.timeline.spans) {
    require(0 <= span.start_ns && span.start_ns <= span.end_ns, "a span starts at 0 or later and ends after that");
    require(span.end_ns <= run.timeline.step_ns, "a span ends within the step");
  }
}

inline std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Layers, samples and parts of the step add up.
inline void check_sums(const RunResult& run) {
  std::vector<std::int64_t> layers(run.replica_rows.size());
  for (const Stage& stage : run.stages) layers.at(static_cast<std::size_t>(stage.replica)) += stage.layer_count;
  for (const std::int64_t count : layers) require(count == run.spec.depth, "the stages of a replica have all layers");
  require(sum_of(run.replica_rows) == run.spec.batch, "the replicas have the whole batch");
  require(sum_of(run.microbatch_rows) == run.replica_rows.front() * run.spec.accum, "micro-batches have the batch");
  for (const std::int64_t bytes : run.transfer_bytes) require(bytes >= 0, "a transfer has bytes");
  for (const std::int64_t bytes : run.peak_memory_bytes) require(bytes >= 0, "memory is not negative");
}

inline void check_explanation(const RunResult& run) {
  const auto explanation = explain(run);
  require(explanation.has_value(), "a prediction is explained");
  for (const TimeByPart& gpu : explanation->gpus) {
    require(gpu.sum_ns() == explanation->step_ns, "the parts of a GPU's step add up to it");
    for (const std::int64_t ns : gpu.ns) require(ns >= 0, "a part of the step is not negative");
  }
  std::int64_t reached_ns = 0;
  for (const PathSegment& segment : explanation->critical_path) {
    require(segment.start_ns == reached_ns && segment.end_ns >= segment.start_ns, "the critical path has no gap");
    reached_ns = segment.end_ns;
  }
}

inline void check_prediction(const RunResult& run) {
  require(run.step_time.median_ms >= 0, "a step takes time");
  require(run.bound_ms.value_or(0) <= run.step_time.median_ms, "a step is not shorter than its bound");
  check_spans(run);
  check_sums(run);
  if (run.step_time.median_ms == 0) return;  // all costs are 0
  const auto metrics = compute_metrics(run);
  require(metrics.bubble_fraction >= 0 && metrics.bubble_fraction <= 1, "a bubble is a share of the step");
  check_explanation(run);
  // A number of JSON has 53 bits, in microseconds: of a step of more than 13 days it may not hold the last nanosecond.
  if (run.step_time.median_ms * 1e6 > 0x1p50) return;
  const std::string written = run_text(run);
  require_equal(written, run_text(run_from_json(nlohmann::json::parse(written), "run.json")),
                "a prediction and what it is read back as");
}

}  // namespace pdl
