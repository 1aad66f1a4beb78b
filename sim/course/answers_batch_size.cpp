// Homework 1.5B: what a larger batch brings.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// Between a row and the one with the next larger batch.
struct BatchStep {
  const ScenarioRow *from, *to;
  double batch;       // times as large
  double throughput;  // times the samples/s

  bool is_doubling() const { return std::abs(batch - 2) < 1e-9; }
  /// Of each doubling, as if all between the two were alike.
  double mean_gain() const { return std::pow(throughput, 1 / std::log2(batch)); }
  std::string range() const {
    return "from " + std::to_string(from->spec.batch) + " to " + std::to_string(to->spec.batch);
  }
};

/// `rows`: by batch, each once.
std::vector<BatchStep> batch_steps(const Rows& rows, Side side) {
  std::vector<BatchStep> steps;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double batch = static_cast<double>(rows[i]->spec.batch) / static_cast<double>(rows[i - 1]->spec.batch);
    const auto samples_per_s = [&](const ScenarioRow& row) { return of(row, side).metrics.throughput_samples_per_s; };
    steps.push_back({rows[i - 1], rows[i], batch, samples_per_s(*rows[i]) / samples_per_s(*rows[i - 1])});
  }
  return steps;
}

/// A doubling of the batch that brings less does not pay.
constexpr double kPayingGain = 1.5;

/// Where a series stops paying. What is not a doubling says only that it is somewhere inside.
std::string where_it_stops(const std::vector<BatchStep>& steps, bool host_bound) {
  const std::string meant =
      "Larger batches stop paying where a doubling brings less than " + times(kPayingGain) + " the samples/s: ";
  const auto stop =
      std::find_if(steps.begin(), steps.end(), [](const BatchStep& step) { return step.mean_gain() < kPayingGain; });
  if (stop == steps.end()) {
    return meant + "nowhere in these rows, " +
           (host_bound ? "because the step is as long as the host takes to issue it, whatever the batch."
                       : "because the time that does not depend on the batch (exchange of gradients, optimizer, host) "
                         "is shared by more samples.");
  }
  const std::string why = ", because the computation, which grows with the batch, is most of the step.";
  if (stop->is_doubling()) return meant + stop->range() + " (x " + fixed(stop->throughput, 2) + ")" + why;
  return meant + "somewhere " + stop->range() + ", where " + to_text(stop->batch) + " times the batch bring " +
         times(stop->throughput) + " the samples/s; which doubling it is these rows do not say" + why;
}

void answer_batches(Rows rows, Side side, Sentences& out) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
  const bool host_bound = std::any_of(rows.begin(), rows.end(), [](auto* row) { return is_host_bound(*row); });
  const std::vector<BatchStep> steps = batch_steps(rows, side);
  std::vector<std::string> items;
  bool above_two = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string text = "batch " + std::to_string(rows[i]->spec.batch) + " " + ms(step_ms(*rows[i], side)) + ", " +
                       grouped(std::llround(of(*rows[i], side).metrics.throughput_samples_per_s)) + " samples/s";
    if (i > 0) {
      const BatchStep& step = steps[i - 1];
      text += " (x " + fixed(step.throughput, 2) +
              (step.is_doubling() ? "" : " with " + to_text(step.batch) + " times the batch") + ")";
      above_two = above_two || step.mean_gain() > 2 * (1 + kTellable);
    }
    items.push_back(text);
  }
  out.push_back(
      layers_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + " (" + kind_text(rows, side) +
      "): " + listed(items) + ". " + where_it_stops(steps, host_bound) +
      (host_bound && above_two
           ? " More than 2 a doubling is noise of the host that bounds these steps, nothing that a batch can bring."
           : ""));
}

/// Of each batch against the fewest GPUs. `rows`: differ in batch and GPUs.
std::vector<ScalingPoint> scaling_by_batch(Rows rows, Side side) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
  std::vector<ScalingPoint> points;
  for (auto first = rows.begin(); first != rows.end();) {
    const auto end =
        std::find_if(first, rows.end(), [&](auto* row) { return row->spec.batch != (*first)->spec.batch; });
    for (const ScalingPoint& point : scaling_of(Rows(first, end), side)) points.push_back(point);
    first = end;
  }
  return points;
}

/// "8 layers of 8192, 4 GPUs against 1 (measured): batch 32 0.60 times as fast (efficiency 15 %), ...": a sentence for
/// each two numbers of GPUs.
void say_speedups_by_batch(const std::vector<ScalingPoint>& points, Sentences& out) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sentences;
  for (const ScalingPoint& point : points) {
    const std::string head = layers_text(point.row->spec) + ", " + gpus_of(*point.row) + " against " +
                             std::to_string(point.base->spec.gpus) + " (" + name(point.side) + "): ";
    const std::string item = "batch " + std::to_string(point.row->spec.batch) + " " + times(point.gain.speedup) +
                             " as fast (efficiency " + whole_percent(point.gain.efficiency) + ")";
    const auto known =
        std::find_if(sentences.begin(), sentences.end(), [&](const auto& sentence) { return sentence.first == head; });
    if (known == sentences.end()) {
      sentences.push_back({head, {item}});
    } else {
      known->second.push_back(item);
    }
  }
  for (const auto& [head, items] : sentences) out.push_back(head + listed(items) + ".");
}

}  // namespace

Sentences batch_size(const ScenarioTable& table) {
  Sentences out;
  const std::int64_t gpus = most_gpus(table);
  for (const Rows& rows : rows_alike(table, {"batch", "gpus"})) {
    Rows most;
    for (const ScenarioRow* row : rows) {
      if (row->spec.gpus == gpus) most.push_back(row);
    }
    if (most.size() > 1) answer_batches(most, side_of(most), out);
    say_speedups_by_batch(scaling_by_batch(rows, side_of(rows)), out);
  }
  return out;
}

}  // namespace pdl
