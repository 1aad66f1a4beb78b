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

/// Series over GPUs that have two rows and more, of the smallest batch of each model.
std::vector<Series> scaling_series(const Tables& tables) {
  std::vector<Series> all;
  for (const Series& series : series_over(tables, {"gpus"})) {
    if (series.rows.size() < 2) continue;
    const RunSpec& spec = series.rows.front()->spec;
    const auto known = std::find_if(all.begin(), all.end(), [&](const Series& other) {
      const RunSpec& of = other.rows.front()->spec;
      return of.model_name == spec.model_name && of.depth == spec.depth && of.dim == spec.dim;
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

/// What the step of the most GPUs consists of.
std::string parts_of_step(const Series& series) {
  const ScenarioRow& row = *last_point(series).row;
  const EvaluatedRun& run = run_of(series, row);
  const CommunicationTime time = communication_time(run.result, run.metrics);
  const std::string each = to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus));
  if (is_host_bound(row))
    return "on " + gpus_of(row) + " the step of " + ms(step_ms(series, row)) +
           " is the time in which the host issues its kernels, which does not shrink with the batch";
  return "on " + gpus_of(row) + " each GPU computes " + each + " samples instead of " + std::to_string(row.spec.batch) +
         ", but exchanges all " + decimal_bytes(gradient_bytes(row)) + " of gradients in " + ms_of(time.running_ns) +
         ", of which " + ms_of(time.exposed_ns) + ", " + percent(exposed_communication_fraction(run.metrics)) +
         " of the step, are not hidden behind computation" + recording_text(run);
}

/// DDP on the most GPUs of a model, over batches; the longest.
Series batches_of(const Tables& tables) {
  Series best{nullptr, {}, Side::predicted};
  for (Series series : series_over(tables, {"batch"})) {
    std::erase_if(series.rows, [](const ScenarioRow* row) {
      return row->spec.gpus == 1 || is_host_bound(*row) || gradient_bytes(*row) == 0;
    });
    std::stable_sort(series.rows.begin(), series.rows.end(),
                     [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
    const bool better =
        series.rows.size() > best.rows.size() ||
        (series.rows.size() == best.rows.size() && series.side == Side::measured && best.side != Side::measured);
    if (series.rows.size() > 1 && better) best = series;
  }
  return best;
}

std::string samples_a_gpu(const ScenarioRow& row) {
  return to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus));
}

double exposed_share(const Series& series, const ScenarioRow& row) {
  return exposed_communication_fraction(run_of(series, row).metrics);
}

/// "41.4 % of the step exposed with 16 samples a GPU".
std::string exposed_text(const Series& series, const ScenarioRow& row) {
  return percent(exposed_share(series, row)) + " of the step with " + samples_a_gpu(row);
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
  return "With " + layers_text(best.rows.front()->spec) + ": on " + gpus_of(*last_point(best).row) +
         " the efficiency is " +
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
  const Series series = batches_of(tables);
  if (!series.table) return "";
  std::vector<std::string> items;
  const ScenarioRow* hidden = nullptr;
  const ScenarioRow* longer = nullptr;
  for (const ScenarioRow* row : series.rows) {
    items.push_back(exposed_text(series, *row));
    const CommunicationTime time = communication_time(run_of(series, *row).result, run_of(series, *row).metrics);
    if (time.running_ns > time.backward_ns) longer = row;
    if (!hidden && exposed_share(series, *row) < kHiddenShare) hidden = row;
  }
  const ScenarioRow& row = *series.rows.front();
  return std::string("Where the exchange takes longer than the backward that could hide it: ") +
         (longer ? "up to " + samples_a_gpu(*longer) + " samples a GPU" : "in none of these rows") + " (" +
         layers_text(row.spec) + " on " + gpus_of(row) + ", " + source_of(series) + "). Exposed communication takes " +
         listed(items) + " samples a GPU" +
         (hidden ? "; it is hidden, but for " + percent(kHiddenShare) + ", from " + samples_a_gpu(*hidden) + " on."
                 : ".");
}

}  // namespace pdl
