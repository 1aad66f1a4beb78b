// Homework 1.2 and 1.3: speed-ups, and what hides communication.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/communication.hpp"

namespace pdl {
namespace {

constexpr double kLinearEfficiency = 0.9;
constexpr double kHiddenShare = 0.05;
constexpr double kPoorEfficiency = 0.5;
constexpr double kSameEfficiency = 0.02;

/// Series over GPUs that have two rows and more, of the smallest batch of each model.
std::vector<Series> scaling_series(const Tables& tables) {
  std::vector<Series> all;
  for (const Series& series : series_over(tables, {"gpus"})) {
    if (series.rows.size() < 2) continue;
    const RunSpec& spec = series.rows.front()->spec;
    const auto known = std::find_if(all.begin(), all.end(), [&](const Series& other) {
      const RunSpec& of = other.rows.front()->spec;
      return of.model_name == spec.model_name && of.depth == spec.depth && of.dim == spec.dim &&
             of.transformer == spec.transformer;
    });
    if (known == all.end()) {
      all.push_back(series);
    } else if (spec.batch < known->rows.front()->spec.batch) {
      *known = series;
    }
  }
  return all;
}

/// Of the most GPUs of a series.
ScalingPoint last_point(const Series& series) {
  return scaling_of(series.rows, series.side).back();
}

/// "0.72 ms on 1 GPU, 1.28 ms on 2 GPUs (speed-up 0.57, efficiency 28 %)".
std::string times_and_speedups(const Series& series) {
  const std::vector<ScalingPoint> points = scaling_of(series.rows, series.side);
  const ScenarioRow& base = *points.front().base;
  std::vector<std::string> items = {ms(step_ms(series, base)) + " on " + gpus_of(base)};
  for (const ScalingPoint& point : points)
    items.push_back(ms(step_ms(series, *point.row)) + " on " + gpus_of(*point.row) + " (speed-up " +
                    fixed(point.gain.speedup, 2) + ", efficiency " + whole_percent(point.gain.efficiency) + ")");
  return listed(items);
}

std::string per_series(const std::vector<Series>& all, std::string (*text)(const Series&)) {
  std::string out;
  for (const Series& series : all)
    out += (out.empty() ? "" : " ") + work_text(series.rows.front()->spec) + " (" + source_of(series) +
           "): " + text(series) + ".";
  return out;
}

/// "0.53 (2 layers of 1024, measured, host-bound) and 0.70 (8 layers of 8192, measured)".
std::string of_each_series(const std::vector<Series>& all, std::string (*number)(const Series&)) {
  std::vector<std::string> items;
  for (const Series& series : all)
    items.push_back(number(series) + " (" + layers_text(series.rows.front()->spec) + ", " + source_of(series) + ")");
  return listed(items);
}

/// The sharpest fall of the efficiency: "from 1 to 2 GPUs, to 28 %".
std::string drop_of(const Series& series) {
  double before = 1, most = 0, to = 1;
  std::int64_t from_gpus = series.rows.front()->spec.gpus, at_from = from_gpus, at_to = from_gpus;
  for (const ScalingPoint& point : scaling_of(series.rows, series.side)) {
    if (before - point.gain.efficiency > most) {
      most = before - point.gain.efficiency;
      to = point.gain.efficiency;
      at_from = from_gpus;
      at_to = point.row->spec.gpus;
    }
    before = point.gain.efficiency;
    from_gpus = point.row->spec.gpus;
  }
  if (most <= 0) return "nowhere, it stays at 100 %";
  return "from " + std::to_string(at_from) + " to " + count_of(at_to, "GPU") + ", to " + whole_percent(to);
}

std::int64_t gradient_bytes(const ScenarioRow& row) {
  std::int64_t bytes = 0;
  for (const std::int64_t of_one : row.predicted.result.collective_bytes) bytes += of_one;
  return bytes;
}

double mean_over_gpus_ms(const EvaluatedRun& run, TaskKind kind) {
  std::int64_t sum_ns = 0;
  for (const Span& span : run.result.timeline.spans) {
    if (span.kind == kind) sum_ns += span.end_ns - span.start_ns;
  }
  return static_cast<double>(sum_ns) / 1e6 / static_cast<double>(run.result.spec.gpus);
}

/// What the most GPUs add to the step of the fewest where the host issues too slowly; nothing if they add nothing.
std::string more_for_the_host(const Series& series) {
  const ScalingPoint point = last_point(series);
  const double own_ms = step_ms(series, *point.row), base_ms = step_ms(series, *point.base);
  const EvaluatedRun &run = run_of(series, *point.row), &base = run_of(series, *point.base);
  const double all_reduces = mean_over_gpus_ms(run, TaskKind::all_reduce);
  if (all_reduces == 0 || difference_to(own_ms, base_ms) != Difference::more) return "";
  const double backward = mean_over_gpus_ms(run, TaskKind::backward);
  const double backward_before = mean_over_gpus_ms(base, TaskKind::backward);
  const bool longer = difference_to(backward, backward_before) == Difference::more;
  return "; it is " + ms(own_ms - base_ms) + " more than on " + gpus_of(*point.base) +
         ", because each host also issues the all-reduces from hooks of the backward" +
         (longer ? ", which takes " + ms(backward) + " instead of " + ms(backward_before) + "," : "") +
         " and each GPU spends " + ms(all_reduces) +
         " in them, waits for the slowest host included (means over the GPUs in a " + step_of_spans(series.side) + ")";
}

/// What the step of the most GPUs consists of.
std::string parts_of_step(const Series& series) {
  const ScenarioRow& row = *last_point(series).row;
  const EvaluatedRun& run = run_of(series, row);
  const CommunicationTime time = communication_time(run.result, run.metrics);
  const std::string each = to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus));
  if (is_host_bound(row))
    return "on " + gpus_of(row) + " the step of " + ms(step_ms(series, row)) +
           " is the time in which the host issues its kernels, which does not shrink with the batch" +
           more_for_the_host(series);
  return "on " + gpus_of(row) + " each GPU computes " + each + " samples instead of " + std::to_string(row.spec.batch) +
         ", but exchanges all " + decimal_bytes(gradient_bytes(row)) + " of gradients in " + ms_of(time.running_ns) +
         ", of which " + ms_of(time.exposed_ns) + ", " + percent(exposed_communication_fraction(run.metrics)) +
         " of the " + step_of_spans(series.side) + ", are not hidden behind computation" + recording_text(run);
}

std::string samples_a_gpu(const ScenarioRow& row) {
  return to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus));
}

/// DDP of one model on so many GPUs, smallest batch first: what any machine measured, or what the first predicts.
struct OverBatches {
  Side side = Side::predicted;
  Rows rows;
  std::vector<std::string> machines;  // that measured them; empty if it is the first one alone
};

bool has_exchange(const ScenarioRow& row) {
  return row.spec.gpus > 1 && !is_host_bound(row) && gradient_bytes(row) > 0;
}

OverBatches measured_like(const Tables& tables, const ScenarioRow& like) {
  OverBatches found{Side::measured, {}, {}};
  bool further = false;
  for (const ScenarioTable& table : tables) {
    for (const ScenarioRow& row : table.rows) {
      const bool known = std::any_of(found.rows.begin(), found.rows.end(),
                                     [&](const ScenarioRow* other) { return other->spec.batch == row.spec.batch; });
      if (known || !row.measured || !has_exchange(row) || !are_alike(row, like, {"batch"})) continue;
      found.rows.push_back(&row);
      further = further || table.of_further_machine;
      if (found.machines.empty() || found.machines.back() != table.profile_name)
        found.machines.push_back(table.profile_name);
    }
  }
  if (!further) found.machines.clear();
  return found;
}

std::vector<OverBatches> over_batches(const Tables& tables) {
  std::vector<OverBatches> all;
  for (Rows rows : rows_alike(tables.front(), {"batch"})) {
    std::erase_if(rows, [](const ScenarioRow* row) { return !has_exchange(*row); });
    if (rows.size() < 2) continue;
    OverBatches own = measured_like(tables, *rows.front());
    if (own.rows.size() < 2) own = {Side::predicted, rows, {}};
    std::stable_sort(own.rows.begin(), own.rows.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
    all.push_back(own);
  }
  return all;
}

double exposed_share(const OverBatches& over, const ScenarioRow& row) {
  return exposed_communication_fraction(of(row, over.side).metrics);
}

/// From how many samples a GPU on communication is hidden: the two neighbours that were tried.
std::string where_it_is_hidden(const OverBatches& over) {
  std::size_t hidden = over.rows.size();
  while (hidden > 0 && exposed_share(over, *over.rows[hidden - 1]) < kHiddenShare) --hidden;
  if (hidden == 0) return "already with " + samples_a_gpu(*over.rows.front()) + " samples a GPU";
  const std::string exposed = samples_a_gpu(*over.rows[hidden - 1]);
  if (hidden == over.rows.size()) return "not even with " + exposed + " samples a GPU";
  return "from between " + exposed + " and " + samples_a_gpu(*over.rows[hidden]) + " samples a GPU on";
}

/// "8 layers of 8192 on 2 GPUs, measured: 17.8 % with 32 and 2.7 % with 128".
std::string exposed_by_samples(const OverBatches& over) {
  std::vector<std::string> shares;
  for (const ScenarioRow* row : over.rows)
    shares.push_back(percent(exposed_share(over, *row)) + " with " + samples_a_gpu(*row));
  const ScenarioRow& row = *over.rows.front();
  return layers_text(row.spec) + " on " + gpus_of(row) + ", " + name(over.side) +
         (over.machines.empty() ? "" : " on " + listed(over.machines)) + ": " + listed(shares);
}

}  // namespace

std::string hw1_2_experiment(const Tables& tables) {
  return per_series(scaling_series(tables), times_and_speedups);
}

std::string hw1_2_is_it_linear(const Tables& tables) {
  const std::vector<Series> all = scaling_series(tables);
  if (all.empty()) return "";
  bool linear = true, slower = false;
  for (const Series& series : all) {
    linear = linear && last_point(series).gain.efficiency >= kLinearEfficiency;
    slower = slower || last_point(series).gain.speedup < 1;
  }
  const ScalingPoint point = last_point(all.back());
  return std::string(linear ? "Nearly: " : "No: ") + "on " + gpus_of(*point.row) + " it is " +
         of_each_series(all, [](const Series& series) { return fixed(last_point(series).gain.speedup, 2); }) +
         " instead of " +
         to_text(static_cast<double>(point.row->spec.gpus) / static_cast<double>(point.base->spec.gpus)) + "." +
         (slower ? " Below 1 more GPUs make the step longer." : "");
}

std::string hw1_2_where_it_drops(const Tables& tables) {
  const std::vector<Series> all = scaling_series(tables);
  return all.empty() ? "" : "Most " + of_each_series(all, drop_of) + ".";
}

std::string hw1_2_why(const Tables& tables) {
  return per_series(scaling_series(tables), parts_of_step);
}

std::string hw1_3_experiment(const Tables& tables) {
  return per_series(scaling_series(tables), times_and_speedups);
}

std::string hw1_3_which_is_more_efficient(const Tables& tables) {
  const std::vector<Series> all = scaling_series(tables);
  if (all.size() < 2) return "";
  const auto efficiency = [](const Series& series) { return last_point(series).gain.efficiency; };
  const Series& best = *std::max_element(
      all.begin(), all.end(), [&](const Series& a, const Series& b) { return efficiency(a) < efficiency(b); });
  const bool all_alike = std::all_of(all.begin(), all.end(), [&](const Series& series) {
    return efficiency(best) - efficiency(series) < kSameEfficiency;
  });
  return (all_alike ? "There is no difference here" : "With " + layers_text(best.rows.front()->spec)) + ": on " +
         gpus_of(*last_point(best).row) + " the efficiency is " +
         of_each_series(all, [](const Series& series) { return whole_percent(last_point(series).gain.efficiency); }) +
         (efficiency(best) < kPoorEfficiency ? ". Neither is efficient at this batch." : ".");
}

std::string hw1_3_why_they_differ(const Tables& tables) {
  const std::vector<Series> all = scaling_series(tables);
  if (all.size() < 2) return "";
  return per_series(all, parts_of_step) +
         " A larger model computes longer and sends more in the same ratio; what hides the exchange is the number of "
         "samples a GPU.";
}

std::string hw1_3_when_communication_limits(const Tables& tables) {
  std::string text;
  for (const OverBatches& over : over_batches(tables))
    text += (text.empty() ? "" : "; ") + where_it_is_hidden(over) + " (" + exposed_by_samples(over) + ")";
  if (text.empty()) return "";
  return "Where a GPU has few samples, so that the backward is too short to hide the exchange. Less than " +
         whole_percent(kHiddenShare) + " of the step is exposed communication " + text + ".";
}

}  // namespace pdl
