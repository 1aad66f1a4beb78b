#include "sim/course/pipeline_words.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

constexpr double kTellableShare = 0.001;

bool is_backward(const Span& span) {
  return span.kind == TaskKind::backward || span.kind == TaskKind::backward_input;
}

bool has_schedules(const Series& series, const std::vector<std::string>& schedules) {
  return std::all_of(schedules.begin(), schedules.end(),
                     [&](const std::string& name) { return !rows_of_schedule(series, name).empty(); });
}

/// The largest difference between the losses of a step, as a fraction; nothing where a run has no losses.
std::optional<double> largest_loss_difference(const std::vector<std::vector<double>>& losses) {
  double largest = 0;
  for (const auto& own : losses) {
    if (own.empty()) return std::nullopt;
    for (std::size_t i = 0; i < std::min(own.size(), losses.front().size()); ++i)
      largest = std::max(largest, std::abs(own[i] / losses.front()[i] - 1));
  }
  return largest;
}

}  // namespace

std::vector<Series> whole_series(const Tables& tables, const std::vector<std::string>& varied) {
  Rows all;
  for (const ScenarioRow& row : tables.front().rows) all.push_back(&row);
  std::vector<Series> whole;
  for (const Series& series : series_over(tables, varied)) {
    Rows wanted = all;
    std::erase_if(wanted, [&](const ScenarioRow* row) { return !are_alike(*row, *series.rows.front(), varied); });
    const bool is_whole = series.rows.size() >= wanted.size();
    whole.push_back(is_whole ? series : Series{&tables.front(), wanted, Side::predicted});
  }
  return whole;
}

std::vector<Series> pipelines(const Tables& tables, const std::vector<std::string>& schedules) {
  std::vector<Series> all = whole_series(tables, {"schedule", "microbatches"});
  std::erase_if(all, [&](const Series& series) {
    return series.rows.front()->spec.gpus < 2 || !has_schedules(series, schedules);
  });
  std::stable_sort(all.begin(), all.end(), [](const Series& a, const Series& b) {
    if (a.side != b.side) return a.side == Side::measured;
    return a.rows.front()->spec.gpus > b.rows.front()->spec.gpus;
  });
  return all;
}

std::optional<Series> pipeline_to_quote(const Tables& tables, const std::vector<std::string>& schedules) {
  const std::vector<Series> all = pipelines(tables, schedules);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::int64_t microbatches_to_quote(const Series& series, const std::vector<std::string>& schedules) {
  std::int64_t largest = 0;
  for (const ScenarioRow* row : series.rows) {
    const std::int64_t count = microbatches_of(*row);
    const bool all_have = std::all_of(schedules.begin(), schedules.end(),
                                      [&](const std::string& name) { return row_with(series, name, count); });
    if (all_have && count == kSheetMicrobatches) return count;
    if (all_have) largest = std::max(largest, count);
  }
  return largest;
}

const ScenarioRow* row_with(const Series& series, const std::string& schedule, std::int64_t microbatches) {
  return find_row_of(series, [&](const ScenarioRow& row) {
    return row.spec.schedule == schedule && microbatches_of(row) == microbatches;
  });
}

Rows rows_of_schedule(const Series& series, const std::string& schedule) {
  Rows rows = series.rows;
  std::erase_if(rows, [&](const ScenarioRow* row) { return row->spec.schedule != schedule; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](auto* a, auto* b) { return microbatches_of(*a) < microbatches_of(*b); });
  return rows;
}

std::string pipeline_place(const Series& series) {
  const ScenarioRow& row = *series.rows.front();
  return work_text(row.spec) + " on " + gpus_of(row) + ", " + source_of(series);
}

std::string option_name(const std::string& schedule) {
  if (schedule == "naive") return "Option A (naive)";
  if (schedule == "gpipe") return "Option B (GPipe)";
  if (schedule == "option-c") return "Option C";
  return schedule == "1f1b" ? "1F1B" : schedule;
}

std::string times_text(const Series& series, const Rows& rows) {
  std::vector<std::string> counts, times;
  for (const ScenarioRow* row : rows) {
    counts.push_back(std::to_string(microbatches_of(*row)));
    times.push_back(fixed(step_ms(series, *row), 2));
  }
  return listed(counts) + (counts == std::vector<std::string>{"1"} ? " micro-batch: " : " micro-batches: ") +
         listed(times) + " ms";
}

bool is_same(double value, double other) {
  return std::abs(value - other) <= kNoDifference * std::abs(other);
}

std::string no_difference_text(const Rows& rows) {
  const bool host_bound =
      std::any_of(rows.begin(), rows.end(), [](const ScenarioRow* row) { return is_host_bound(*row); });
  return std::string("no difference here") + (host_bound ? ", where the steps are host-bound" : "");
}

std::string against(double time_ms, double than_ms) {
  if (is_same(time_ms, than_ms)) return "takes as long as";
  return time_ms < than_ms ? "is " + fixed(than_ms / time_ms, 2) + " times as fast as"
                           : "takes " + fixed(time_ms / than_ms, 2) + " times as long as";
}

std::string timeline_step_text(const EvaluatedRun& run) {
  return (run.result.measured ? "the recorded step of " : "") + ms_of(run.metrics.step_ns);
}

std::string order_text(const EvaluatedRun& run, std::size_t most) {
  const std::vector<std::string>& operations = run.metrics.gpus.front().ops;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, operations.size()); ++i) text += (i == 0 ? "" : " ") + operations[i];
  return text + (most < operations.size() ? " ..." : "");
}

double ideal_bubble(const ScenarioRow& row) {
  const auto gpus = static_cast<double>(row.spec.gpus), microbatches = static_cast<double>(microbatches_of(row));
  return (gpus - 1) / (microbatches + gpus - 1);
}

std::string bubble_text(const Series& series, const ScenarioRow& row) {
  const RunMetrics& metrics = run_of(series, row).metrics;
  double idle = 0, other = 0, transfers = 0;
  for (const GpuMetrics& gpu : metrics.gpus) {
    idle += static_cast<double>(gpu.idle_ns);
    other += static_cast<double>(gpu.busy_ns - gpu.useful_ns);
    transfers += static_cast<double>(gpu.comm_ns);
  }
  const double all = static_cast<double>(metrics.step_ns) * static_cast<double>(metrics.gpus.size());
  return percent(metrics.bubble_fraction) + " of the GPUs' time (idle " + percent(idle / all) +
         ", optimizer and loss " + percent(other / all) + ", transfers " + percent(transfers / all) +
         "), where the closed form (P - 1) / (M + P - 1) is " + percent(ideal_bubble(row));
}

std::string rest_of_bubble(const Rows& rows) {
  if (std::any_of(rows.begin(), rows.end(), [](const ScenarioRow* row) { return is_host_bound(*row); }))
    return "the rest is mostly that the GPUs wait for the host";
  return "the rest is the optimizer, transfers and unequal stages";
}

std::optional<FirstOverlap> first_overlap(const EvaluatedRun& run) {
  const auto least_ns = static_cast<std::int64_t>(kTellableShare * static_cast<double>(run.metrics.step_ns));
  std::optional<FirstOverlap> first;
  for (const Span& backward : run.result.timeline.spans) {
    if (!is_backward(backward)) continue;
    for (const Span& forward : run.result.timeline.spans) {
      if (forward.kind != TaskKind::forward || forward.worker == backward.worker) continue;
      const std::int64_t begin_ns = std::max(forward.start_ns, backward.start_ns);
      if (std::min(forward.end_ns, backward.end_ns) - begin_ns <= least_ns || (first && first->at_ns <= begin_ns))
        continue;
      first = {span_name(run.result, backward, false) + " on GPU " + std::to_string(backward.worker),
               span_name(run.result, forward, false) + " on GPU " + std::to_string(forward.worker), begin_ns};
    }
  }
  return first;
}

std::int64_t first_backward_ns(const EvaluatedRun& run) {
  std::int64_t first_ns = run.metrics.step_ns;
  for (const Span& span : run.result.timeline.spans) {
    if (is_backward(span)) first_ns = std::min(first_ns, span.start_ns);
  }
  return first_ns;
}

std::string losses_text(const Series& series, const Rows& rows) {
  std::vector<std::vector<double>> losses;
  for (const ScenarioRow* row : rows) losses.push_back(measured_facts(run_of(series, *row).result).losses);
  const std::optional<double> difference = largest_loss_difference(losses);
  if (!difference)
    return "A prediction has no losses; scenarios/python/p9_part4.py prints equal ones, as the work is the same in "
           "another order.";
  constexpr double kFloatPrecision = 1e-6;
  const std::string first =
      "in the first step " + fixed(losses.front().front(), 7) + ", in the last " + fixed(losses.front().back(), 7);
  const std::string place = " (" + pipeline_place(series) + ", " + microbatches_text(*rows.front()) + "): ";
  if (*difference < kFloatPrecision) return "The losses are equal in every step" + place + first + ".";
  return "The losses differ by at most " + difference_text(*difference) + place + first + ".";
}

}  // namespace pdl
