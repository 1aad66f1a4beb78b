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

std::string place_of(const Series& series) {
  return layers_text(series.rows.front()->spec) + " on " + gpus_of(*series.rows.front()) + ", " + source_of(series);
}

/// A batch's speed-up over 1 GPU of the same table; both of the series' kind.
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

/// The series that have speed-ups of two batches and more; those whose every step is host-bound, or the others.
std::vector<Series> with_speedups(const Tables& tables, bool host_bound) {
  std::vector<Series> all;
  for (const Series& series : batch_series(tables)) {
    const bool every =
        std::all_of(series.rows.begin(), series.rows.end(), [](const ScenarioRow* row) { return is_host_bound(*row); });
    if (every == host_bound && speedups_of(series).size() > 1) all.push_back(series);
  }
  return all;
}

/// " With 2 layers of 1024 the speed-up over 1 GPU is 0.53 to 0.90, no trend: ..."
std::string without_trend(const Tables& tables) {
  std::string text;
  for (const Series& series : with_speedups(tables, true)) {
    double least = 1e9, most = 0;
    for (const BatchSpeedup& one : speedups_of(series)) {
      least = std::min(least, one.gain.speedup);
      most = std::max(most, one.gain.speedup);
    }
    text += " With " + layers_text(series.rows.front()->spec) + " the speed-up over 1 GPU is " + fixed(least, 2) +
            " to " + fixed(most, 2) + ", no trend: the steps are host-bound, whatever the batch (on " +
            gpus_of(*series.rows.front()) + ", " + name(series.side) + ").";
  }
  return text;
}

/// A doubling of the batch that brings less speed-up over 1 GPU does not scale better.
constexpr double kPayingGrowth = 1.05;

/// From which batch on no doubling brings more: "from batch 256 on", "not up to batch 2048".
std::string where_it_saturates(const std::vector<BatchSpeedup>& gains) {
  std::size_t from = gains.size() - 1;
  while (from > 0) {
    const BatchSpeedup &before = gains[from - 1], &after = gains[from];
    const double doublings = std::log2(static_cast<double>(after.batch) / static_cast<double>(before.batch));
    if (after.gain.speedup >= before.gain.speedup * std::pow(kPayingGrowth, doublings)) break;
    --from;
  }
  if (from + 1 == gains.size()) return "not up to batch " + std::to_string(gains.back().batch);
  return "from batch " + std::to_string(gains[from].batch) + " on";
}

std::string speedup_by_batch(const std::vector<BatchSpeedup>& gains) {
  std::vector<std::string> items;
  for (const BatchSpeedup& one : gains)
    items.push_back(fixed(one.gain.speedup, 2) + " (" + whole_percent(one.gain.efficiency) + ") with " +
                    std::to_string(one.batch));
  return listed(items);
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
  for (const Series& series : with_speedups(tables, false)) {
    const std::vector<BatchSpeedup> gains = speedups_of(series);
    const BatchSpeedup &first = gains.front(), &last = gains.back();
    better = better && difference_to(last.gain.speedup, first.gain.speedup) == Difference::more;
    items.push_back("from " + fixed(first.gain.speedup, 2) + " with batch " + std::to_string(first.batch) + " to " +
                    fixed(last.gain.speedup, 2) + " with batch " + std::to_string(last.batch) + " (efficiency " +
                    whole_percent(first.gain.efficiency) + " to " + whole_percent(last.gain.efficiency) + ", " +
                    place_of(series) + ")");
  }
  const std::string no_trend = without_trend(tables);
  if (items.empty()) return no_trend.empty() ? "" : "That cannot be seen here." + no_trend;
  return std::string(better ? "Yes" : "Not always") + ": the speed-up over 1 GPU goes " + listed(items) +
         (better ? "; the exchange of gradients and the host take the same time whatever the batch." : ".") + no_trend;
}

std::string hw1_5b_when_it_saturates(const Tables& tables) {
  std::string text;
  for (const Series& series : with_speedups(tables, false)) {
    const std::vector<BatchSpeedup> gains = speedups_of(series);
    text += (text.empty() ? "" : "; ") + where_it_saturates(gains) + ", with speed-ups (efficiencies) of " +
            speedup_by_batch(gains) + " (" + place_of(series) + ")";
  }
  const std::string no_trend = without_trend(tables);
  if (text.empty()) return no_trend.empty() ? "" : "That cannot be seen here." + no_trend;
  return "Where a doubling of the batch adds less than " + whole_percent(kPayingGrowth - 1) +
         " to the speed-up over 1 GPU: " + text + "." + no_trend;
}

}  // namespace pdl
