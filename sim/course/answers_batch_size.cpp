// Homework 1.5B: what a larger batch brings.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// Over the batch, smallest first, on the most GPUs of the tables.
std::vector<Series> batch_series(const Tables& tables) {
  const std::int64_t gpus = most_gpus(tables.front());
  std::vector<Series> all;
  for (Series series : series_over(tables, {"batch"})) {
    if (series.rows.front()->spec.gpus != gpus || series.rows.size() < 2) continue;
    std::stable_sort(series.rows.begin(), series.rows.end(),
                     [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
    all.push_back(series);
  }
  return all;
}

double samples_per_s(const Series& series, const ScenarioRow& row) {
  return run_of(series, row).metrics.throughput_samples_per_s;
}

std::string place_of(const Series& series) {
  return layers_text(series.rows.front()->spec) + " on " + gpus_of(*series.rows.front()) + ", " + source_of(series);
}

/// A batch's speed-up against the fewest GPUs of the same table; both of the series' kind.
struct BatchSpeedup {
  std::int64_t batch;
  Speedup gain;
};
std::vector<BatchSpeedup> speedups_of(const Series& series) {
  std::vector<BatchSpeedup> found;
  for (const ScenarioRow* row : series.rows) {
    for (const ScenarioRow& base : series.table->rows) {
      const bool same = base.spec.gpus == 1 && base.spec.batch == row->spec.batch &&
                        base.spec.depth == row->spec.depth && base.spec.dim == row->spec.dim;
      if (!same || (series.side == Side::measured && !base.measured)) continue;
      found.push_back(
          {row->spec.batch, speedup_against({step_ms(base, series.side), 1}, {step_ms(series, *row), row->spec.gpus})});
    }
  }
  return found;
}

/// A doubling of the batch that brings less throughput does not pay.
constexpr double kPayingGain = 1.5;

/// "from 256 to 2048 (x 2.51, which is 1.36 a doubling)".
std::string where_it_saturates(const Series& series) {
  for (std::size_t i = 1; i < series.rows.size(); ++i) {
    const ScenarioRow &from = *series.rows[i - 1], &to = *series.rows[i];
    const double batch = static_cast<double>(to.spec.batch) / static_cast<double>(from.spec.batch);
    const double gain = samples_per_s(series, to) / samples_per_s(series, from);
    const double each = std::pow(gain, 1 / std::log2(batch));
    if (each < kPayingGain)
      return "from batch " + std::to_string(from.spec.batch) + " to " + std::to_string(to.spec.batch) + ", " +
             fixed(each, 2) + " times the throughput for each doubling";
  }
  const double gain = samples_per_s(series, *series.rows.back()) / samples_per_s(series, *series.rows.front());
  return "nowhere up to batch " + std::to_string(series.rows.back()->spec.batch) + ", " + fixed(gain, 1) +
         " times the throughput of the smallest";
}

}  // namespace

std::string hw1_5b_experiment(const Tables& tables) {
  std::string text;
  for (const Series& series : batch_series(tables)) {
    std::vector<std::string> items;
    for (const ScenarioRow* row : series.rows)
      items.push_back(ms(step_ms(series, *row)) + " with " + std::to_string(row->spec.batch));
    text += (text.empty() ? "" : " ") + place_of(series) + ": " + listed(items) + ".";
  }
  return text;
}

std::string hw1_5b_do_they_scale_better(const Tables& tables) {
  std::vector<std::string> items;
  bool better = true;
  for (const Series& series : batch_series(tables)) {
    const std::vector<BatchSpeedup> gains = speedups_of(series);
    if (gains.size() < 2) continue;
    const BatchSpeedup &first = gains.front(), &last = gains.back();
    better = better && last.gain.speedup > first.gain.speedup;
    items.push_back("from " + fixed(first.gain.speedup, 2) + " with batch " + std::to_string(first.batch) + " to " +
                    fixed(last.gain.speedup, 2) + " with batch " + std::to_string(last.batch) + " (efficiency " +
                    whole_percent(first.gain.efficiency) + " to " + whole_percent(last.gain.efficiency) + ", " +
                    place_of(series) + ")");
  }
  if (items.empty()) return "";
  return std::string(better ? "Yes" : "Not always") + ": the speed-up over 1 GPU goes " + listed(items) +
         "; the exchange of gradients and the host take the same time whatever the batch.";
}

std::string hw1_5b_when_it_saturates(const Tables& tables) {
  std::vector<std::string> items;
  for (const Series& series : batch_series(tables))
    items.push_back(where_it_saturates(series) + " (" + place_of(series) + ")");
  if (items.empty()) return "";
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : "; ") + item;
  return "Where a doubling of the batch brings less than " + fixed(kPayingGain, 1) +
         " times the throughput, because "
         "computation, which grows with the batch, is then most of the step: " +
         text + ".";
}

}  // namespace pdl
