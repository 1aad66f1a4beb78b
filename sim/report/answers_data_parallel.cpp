// Homework 1: DataParallel and DistributedDataParallel.
#include "sim/report/exercises.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "sim/report/answer_words.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/gpu_alone.hpp"
#include "sim/report/measured_facts.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/speedup.hpp"
#include "sim/report/terminal.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

std::string times(double value) { return fixed(value, 2) + " times"; }
std::string whole_percent(double fraction) { return fixed(100 * fraction, 0) + " %"; }

/// The kind of numbers in which two rows are compared.
Side side_of_both(const ScenarioRow& a, const ScenarioRow& b) { return side_of(Rows{&a, &b}); }

/// "2 layers of 1024": the model without the batch.
std::string layers_text(const RunSpec& spec) { return count_of(spec.depth, "layer") + " of " + std::to_string(spec.dim); }

bool same_model(const RunSpec& a, const RunSpec& b) {
  return a.model_name == b.model_name && a.depth == b.depth && a.dim == b.dim;
}

/// Rows with the same model, whatever their batch, in the order of the table.
std::vector<Rows> rows_by_layers(const ScenarioTable& table) {
  std::vector<Rows> groups;
  for (const ScenarioRow& row : table.rows) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Rows& group) { return same_model(group.front()->spec, row.spec); });
    if (known == groups.end()) {
      groups.push_back({&row});
    } else {
      known->push_back(&row);
    }
  }
  return groups;
}

// ---- HW1.1

std::string warmup_of(const ScenarioRow& row) {
  if (!row.measured) return "";
  const MeasuredFacts facts = measured_facts(row.measured->result);
  if (facts.warmup_ms.empty()) return "";
  const double median_ms = row.measured->result.step_time.median_ms;
  std::string first;
  for (const double time_ms : facts.warmup_ms) first += (first.empty() ? "" : ", ") + fixed(time_ms, 1);
  double sum_ms = 0;
  for (const double time_ms : facts.warmup_ms) sum_ms += time_ms;
  const auto warmup = static_cast<double>(facts.warmup_ms.size());
  const double steps = static_cast<double>(row.measured->result.step_time.n.value_or(1)), mean_ms = (sum_ms + steps * median_ms) / (warmup + steps);
  return work_text(row.spec) + " on " + gpus_of(row) + ": the first " + count_of(static_cast<std::int64_t>(facts.warmup_ms.size()), "step") + " took " +
         first + " ms, the median of the others is " + ms(median_ms) + "; the very first is " + fixed(facts.warmup_ms.front() / median_ms, 1) +
         " times as long. A mean that kept them would be about " + ms(mean_ms) + ", " + time_against(mean_ms, median_ms) + " than a step takes.";
}

/// The largest difference of first losses in a group of rows, relative to the first row's.
std::string seeds_of(const Rows& rows) {
  std::vector<double> first;
  for (const ScenarioRow* row : rows) {
    if (!row->measured) continue;
    const auto losses = measured_facts(row->measured->result).losses;
    if (!losses.empty()) first.push_back(losses.front());
  }
  if (first.size() < 2) return "";
  double most = 0;
  for (const double loss : first) most = std::max(most, std::abs(loss / first.front() - 1));
  return work_text(rows.front()->spec) + ": the loss of the first step is " + to_text(first.front()) + " in the first of " +
         count_of(static_cast<std::int64_t>(first.size()), "run") + ", and differs by at most " + fixed(1e6 * most, 1) + " millionths in the others.";
}

// ---- scaling

struct ScalingPoint {
  const ScenarioRow* row;
  Side side;
  Speedup gain;
};

/// Of each row of a group against the one with the fewest GPUs, which is not among them. Each compares two measured times, or
/// two predicted ones where one of the rows was not measured; `of_all`: all of that kind.
std::vector<ScalingPoint> scaling_of(Rows rows, std::optional<Side> of_all = std::nullopt) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.gpus < b->spec.gpus; });
  const ScenarioRow& base = *rows.front();
  std::vector<ScalingPoint> points;
  for (const ScenarioRow* row : rows) {
    if (row->spec.gpus == base.spec.gpus) continue;
    const Side side = of_all.value_or(side_of_both(base, *row));
    points.push_back({row, side, speedup_against({step_ms(base, side), base.spec.gpus}, {step_ms(*row, side), row->spec.gpus})});
  }
  return points;
}

/// Measured times against measured ones, then predicted against predicted ones.
std::string speedups_text(const std::vector<ScalingPoint>& points, std::int64_t fewest) {
  std::string text;
  for (const Side side : {Side::measured, Side::predicted}) {
    std::vector<std::string> items;
    for (const ScalingPoint& point : points) {
      if (point.side != side) continue;
      items.push_back(times(point.gain.speedup) + " on " + gpus_of(*point.row) + " (efficiency " + whole_percent(point.gain.efficiency) + ")");
    }
    if (items.empty()) continue;
    text += (text.empty() ? "" : ", and ") + listed(items) + " as fast as on " + count_of(fewest, "GPU") + " (" + name(side) + " against " + name(side) + ")";
  }
  return text;
}

constexpr double kLinearEfficiency = 0.9;

/// The sharpest fall of the efficiency from one number of GPUs to the next. `points`: all of one kind.
std::string drop_text(const std::vector<ScalingPoint>& points, std::int64_t fewest) {
  double before = 1, most = 0;
  std::int64_t from = fewest, at_from = fewest, at_to = fewest;
  double level_from = 1, level_to = 1;
  for (const ScalingPoint& point : points) {
    if (before - point.gain.efficiency > most) {
      most = before - point.gain.efficiency;
      at_from = from;
      at_to = point.row->spec.gpus;
      level_from = before;
      level_to = point.gain.efficiency;
    }
    before = point.gain.efficiency;
    from = point.row->spec.gpus;
  }
  const std::string kind = " (" + name(points.front().side) + ")";
  if (most <= 0) return "The efficiency never drops" + kind + ".";
  return "The efficiency drops most from " + std::to_string(at_from) + " to " + count_of(at_to, "GPU") + ": from " + whole_percent(level_from) + " to " +
         whole_percent(level_to) + kind + ".";
}

std::string communication_text(const ScenarioRow& row, Side side) {
  const EvaluatedRun& run = of(row, side);
  const CommunicationTime time = communication_time(run.result, run.metrics);
  const double hidden = time.running_ns == 0 ? 0 : 1 - static_cast<double>(time.exposed_ns) / static_cast<double>(time.running_ns);
  return "communication runs " + ms_of(time.running_ns) + " of " + ms_of(run.metrics.step_ns) + ", of which " + ms_of(time.exposed_ns) + ", " +
         percent(exposed_communication_fraction(run.metrics)) + " of the step, are exposed (" + whole_percent(hidden) +
         " hidden behind computation; " + name(side) + ")";
}

// ---- HW1.3

constexpr double kHiddenShare = 0.05;

/// Backward work of a GPU that could hide the exchange, against the exchange itself.
struct HidingPoint {
  const ScenarioRow* row;
  Side side;
  double exposed_share;
  double backward_over_communication;
};

std::vector<HidingPoint> hiding_points(const ScenarioTable& table, std::int64_t gpus) {
  std::vector<HidingPoint> points;
  for (const ScenarioRow& row : table.rows) {
    if (row.spec.gpus != gpus) continue;
    const Side side = row.measured ? Side::measured : Side::predicted;
    const EvaluatedRun& run = of(row, side);
    const CommunicationTime time = communication_time(run.result, run.metrics);
    if (time.running_ns == 0) continue;
    points.push_back({&row, side, exposed_communication_fraction(run.metrics),
                      static_cast<double>(time.backward_ns) / static_cast<double>(time.running_ns)});
  }
  return points;
}

std::int64_t most_gpus(const ScenarioTable& table) {
  std::int64_t most = 1;
  for (const ScenarioRow& row : table.rows) most = std::max(most, row.spec.gpus);
  return most;
}

// ---- HW1.4

const ScenarioRow* with_strategy(const Rows& rows, Strategy strategy, std::int64_t gpus) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) { return row->spec.strategy == strategy && row->spec.gpus == gpus; });
  return found == rows.end() ? nullptr : *found;
}

std::string leading_text(const EvaluatedRun& run, Side side) {
  struct Named {
    TaskKind kind;
    const char* what;
  };
  constexpr std::array kKinds = {Named{TaskKind::scatter, "scatter"}, Named{TaskKind::broadcast, "broadcast of the parameters"},
                                 Named{TaskKind::gather, "gather"}, Named{TaskKind::loss, "loss"},
                                 Named{TaskKind::reduce, "reduce of the gradients"},
                                 Named{TaskKind::bucket_copy_out, "sum of the gradients"}, Named{TaskKind::optimizer, "optimizer"}};
  std::vector<std::string> items;
  for (const Named& named : kKinds) {
    const std::int64_t time_ns = time_of_kind_ns(run.result, 0, named.kind);
    if (time_ns > 0) items.push_back(std::string(named.what) + " " + ms_of(time_ns));
  }
  const std::int64_t leading = leading_ns(run.result, 0);
  return "GPU 0 works " + ms_of(leading) + " of a step of " + ms_of(run.metrics.step_ns) + ", " +
         percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) +
         ", at what no GPU can compute beside: " + listed(items) + " (" + name(side) + ")";
}

/// "62 %, 41 %, 41 %, 40 %": by GPU.
std::string busy_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    text += (text.empty() ? "" : ", ") + whole_percent(static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns));
  }
  return text;
}

std::string memory_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::int64_t bytes : run.result.peak_memory_bytes) text += (text.empty() ? "" : ", ") + gib(bytes);
  return text + " GiB";
}

std::string spread_text(const ScenarioRow& row) {
  const StepTime& time = row.measured->result.step_time;
  if (!time.p25_ms || !time.p75_ms) return "not known";
  return percent((*time.p75_ms - *time.p25_ms) / time.median_ms);
}

void compare_dp_with_ddp(const ScenarioRow& dp, const ScenarioRow& ddp, Sentences& out) {
  const Side side = side_of_both(dp, ddp);
  const EvaluatedRun &here = of(dp, side), &there = of(ddp, side);
  std::string text = work_text(dp.spec) + " on " + gpus_of(dp) + ": DataParallel takes " + ms(step_ms(dp, side)) + ", DDP " + ms(step_ms(ddp, side)) +
                     " (" + name(side) + "), " + time_against(step_ms(dp, side), step_ms(ddp, side)) + ".";
  text += " Under DataParallel " + leading_text(here, side) + ".";
  text += " Computing, by GPU: " + busy_by_gpu(here) + " of the step; under DDP " + busy_by_gpu(there) + ".";
  if (!here.result.peak_memory_bytes.empty() && !there.result.peak_memory_bytes.empty()) {
    text += " Peak memory, by GPU: " + memory_by_gpu(here) + "; under DDP " + memory_by_gpu(there) + ".";
  }
  if (side == Side::measured) text += " Steps spread (p25 to p75) by " + spread_text(dp) + " of their median, under DDP by " + spread_text(ddp) + ".";
  out.push_back(text);
}

// ---- HW1.5A

/// The rows of a model with one delay.
Rows with_delay(const Rows& rows, double delay_ms) {
  Rows found;
  for (const ScenarioRow* row : rows) {
    if (row->spec.delay_ms == delay_ms) found.push_back(row);
  }
  return found;
}

/// What the sleep adds to a step, where that is less than the sleep.
std::string hidden_sleep_text(const Rows& plain, const Rows& delayed) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : delayed) {
    const auto other = std::find_if(plain.begin(), plain.end(), [&](auto* p) { return p->spec.gpus == row->spec.gpus; });
    if (other == plain.end()) continue;
    const Side side = side_of_both(*row, **other);
    const double more_ms = step_ms(*row, side) - step_ms(**other, side);
    constexpr double kWhole = 0.95;
    if (more_ms < kWhole * row->spec.delay_ms) items.push_back(ms(more_ms) + " on " + gpus_of(*row) + " (" + name(side) + ")");
  }
  if (items.empty()) return "";
  return " The sleep adds less than its length to a step, " + listed(items) + ": the GPUs are still at the forward while the host sleeps.";
}

void answer_delay(const Rows& plain, const Rows& delayed, Sentences& out) {
  const ScenarioRow &base = *delayed.front(), &plain_base = *plain.front();
  const double delay_ms = base.spec.delay_ms;
  out.push_back(model_text(base.spec) + ": with a delay of " + to_text(delay_ms) + " ms a step is " +
                speedups_text(scaling_of(delayed), base.spec.gpus) + "; without it " + speedups_text(scaling_of(plain), plain_base.spec.gpus) + ".");
  std::vector<std::string> items;
  for (const ScalingPoint& point : scaling_of(delayed)) {
    const double serial = std::min(1.0, delay_ms / step_ms(base, point.side));
    const double more = static_cast<double>(point.row->spec.gpus) / static_cast<double>(base.spec.gpus);
    items.push_back(times(1 / (serial + (1 - serial) / more)) + " on " + gpus_of(*point.row) + " (" + name(point.side) + ": " + fixed(point.gain.speedup, 2) + ")");
  }
  if (items.empty()) return;
  const Side side = base.measured ? Side::measured : Side::predicted;
  const double serial = std::min(1.0, delay_ms / step_ms(base, side));
  out.push_back("Amdahl: the sleep is the part that more GPUs do not shorten, s = " + to_text(delay_ms) + " of " + ms(step_ms(base, side)) + " = " +
                percent(serial) + " of the step on " + gpus_of(base) + " (" + name(side) + "). 1 / (s + (1 - s) / n) gives " + listed(items) + ", and never more than " +
                times(1 / serial) + " on any number of GPUs. What is missing to the law is what does not scale without the delay either: communication and the host." +
                hidden_sleep_text(plain, delayed));
}

// ---- HW1.5B

/// What a doubling of the batch multiplies the throughput by, between two rows.
double gain_of_doubling(const ScenarioRow& from, const ScenarioRow& to, Side side) {
  const double batch = static_cast<double>(to.spec.batch) / static_cast<double>(from.spec.batch);
  const double throughput = batch * step_ms(from, side) / step_ms(to, side);
  return std::pow(throughput, 1 / std::log2(batch));
}

constexpr double kPayingGain = 1.5;

void answer_batches(Rows rows, Sentences& out) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
  const Side side = side_of(rows);
  std::vector<std::string> times_of_batch;
  std::string stops;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScenarioRow& row = *rows[i];
    std::string text = "batch " + std::to_string(row.spec.batch) + " " + ms(step_ms(row, side)) + ", " +
                       grouped(std::llround(of(row, side).metrics.throughput_samples_per_s)) + " samples/s";
    if (i > 0) {
      const double gain = gain_of_doubling(*rows[i - 1], row, side);
      text += " (x " + fixed(gain, 2) + " a doubling)";
      if (gain < kPayingGain && stops.empty()) stops = std::to_string(rows[i - 1]->spec.batch) + " to " + std::to_string(row.spec.batch);
    }
    times_of_batch.push_back(text);
  }
  out.push_back(layers_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + " (" + name(side) + "): " + listed(times_of_batch) + ". " +
                (stops.empty() ? "Larger batches pay in the whole table: every doubling gives at least " + times(kPayingGain) + " the throughput; the time that does "
                                 "not depend on the batch (exchange of gradients, optimizer, host) is shared by more samples."
                               : "They stop paying from " + stops + ": there a doubling gives less than " + times(kPayingGain) +
                                     " the throughput, because the computation, which grows with the batch, is most of the step."));
}

// ---- HW1.5C

void answer_straggler(const ScenarioRow& plain, const ScenarioRow& straggling, Sentences& out) {
  const Side side = side_of_both(plain, straggling);
  const Straggler& straggler = *straggling.spec.straggler;
  const double more_ms = step_ms(straggling, side) - step_ms(plain, side);
  const auto gpus = static_cast<double>(straggling.spec.gpus);
  std::string waits;
  const EvaluatedRun &here = of(straggling, side), &there = of(plain, side);
  double idle_ms = 0;
  for (std::size_t g = 0; g < here.metrics.gpus.size(); ++g) {
    if (static_cast<std::int64_t>(g) == straggler.rank) continue;
    idle_ms = std::max(idle_ms, static_cast<double>(here.metrics.gpus[g].idle_ns - there.metrics.gpus[g].idle_ns) / 1e6);
  }
  out.push_back(work_text(plain.spec) + " on " + gpus_of(plain) + ": rank " + std::to_string(straggler.rank) + " sleeps " + ms(straggler.ms) + ", the step of everyone takes " +
                ms(step_ms(straggling, side)) + " instead of " + ms(step_ms(plain, side)) + " (" + name(side) + "): " + ms(more_ms) + " more, " +
                whole_percent(more_ms / straggler.ms) + " of the sleep. The other GPUs wait in their first all-reduce, up to " + ms(idle_ms) +
                " longer than before; together the " + gpus_of(plain) + " lose " + ms(gpus * more_ms) + " of GPU time a step, " + fixed(gpus * more_ms / straggler.ms, 1) +
                " times what one of them sleeps. Throughput falls to " + percent(step_ms(plain, side) / step_ms(straggling, side)) + ".");
}

}  // namespace

Sentences reproducible_benchmark(const ScenarioTable& table) {
  Sentences out;
  for (const ScenarioRow& row : table.rows) {
    if (const std::string text = warmup_of(row); !text.empty()) out.push_back("Warm-up: " + text);
  }
  if (out.empty()) {
    out.push_back("Warm-up: no run here was measured with the times of its first steps; a prediction is of a step as it is after them. The first steps create "
                  "what later ones use again: CUDA contexts, cuBLAS and NCCL handles and workspaces, the allocator's blocks.");
  }
  std::size_t compared = 0;
  for (const Rows& rows : rows_by_model(table)) {
    const std::string text = seeds_of(rows);
    if (text.empty()) continue;
    out.push_back("Seeds: " + text);
    ++compared;
  }
  out.push_back(compared > 0 ? "Because parameters and data come from the same seed, runs on more GPUs train the same model on the same samples, and their times may be compared."
                             : "Seeds: with the same seed every run begins with the same parameters and data, so that losses can be compared number by number and times are those of "
                               "the same work.");
  for (const ScenarioRow& row : table.rows) {
    if (!row.measured || !row.measured->result.step_time.p25_ms) continue;
    out.push_back("Spread: " + work_text(row.spec) + " on " + gpus_of(row) + ": " + spread_text(row) + " of the median from p25 to p75, over " +
                  count_of(row.measured->result.step_time.n.value_or(0), "step") + ".");
  }
  return out;
}

Sentences strong_scaling(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    const std::vector<ScalingPoint> points = scaling_of(rows);
    if (points.empty()) continue;
    std::int64_t fewest = rows.front()->spec.gpus;
    for (const ScenarioRow* row : rows) fewest = std::min(fewest, row->spec.gpus);
    const bool linear = std::all_of(points.begin(), points.end(), [](const ScalingPoint& p) { return p.gain.efficiency >= kLinearEfficiency; });
    const bool slower = std::any_of(points.begin(), points.end(), [](const ScalingPoint& p) { return p.gain.speedup < 1; });
    out.push_back(work_text(rows.front()->spec) + ": is it linear? " + (linear ? "Nearly: " : "No: ") + speedups_text(points, fewest) + "." +
                  (slower ? " Below 1 more GPUs make the step longer." : ""));
    out.push_back(drop_text(scaling_of(rows, side_of(rows)), fewest));
    for (const ScalingPoint& point : points) {
      const Side side = point.row->measured ? Side::measured : Side::predicted;
      out.push_back("On " + gpus_of(*point.row) + " " + communication_text(*point.row, side) + ".");
    }
  }
  return out;
}

Sentences communication_computation(const ScenarioTable& table) {
  Sentences out;
  const std::int64_t gpus = most_gpus(table);
  std::vector<HidingPoint> points = hiding_points(table, gpus);
  for (const HidingPoint& point : points) {
    out.push_back(work_text(point.row->spec) + " on " + gpus_of(*point.row) + ", " + fixed(static_cast<double>(point.row->spec.batch) / static_cast<double>(gpus), 0) +
                  " samples a GPU: " + communication_text(*point.row, point.side) + "; the backward takes " + fixed(point.backward_over_communication, 2) +
                  " times as long as the exchange.");
  }
  std::vector<std::string> hidden;
  for (const HidingPoint& point : points) {
    if (point.exposed_share < kHiddenShare) hidden.push_back(work_text(point.row->spec) + " (" + percent(point.exposed_share) + " of the step exposed)");
  }
  out.push_back("From which size on does computation hide communication? " +
                (hidden.empty() ? "In no row of " + count_of(gpus, "GPU") + " is less than " + percent(kHiddenShare) + " of the step exposed."
                                : "Less than " + percent(kHiddenShare) + " of the step is exposed with " + listed(hidden) + "."));
  out.push_back("A layer's exchange carries 4 D^2 bytes and its backward computes 4 D^2 operations a sample: the width cancels, and what hides the exchange is the number of "
                "samples a GPU. A model too small to keep the GPU busy is bound by the host that launches its kernels instead.");
  return out;
}

Sentences dataparallel_ddp(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    for (const ScenarioRow* row : rows) {
      if (row->spec.strategy != Strategy::dp) continue;
      if (const ScenarioRow* ddp = with_strategy(rows, Strategy::ddp, row->spec.gpus)) compare_dp_with_ddp(*row, *ddp, out);
    }
  }
  return out;
}

Sentences artificial_delay(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_layers(table)) {
    const Rows plain = with_delay(rows, 0);
    std::vector<double> delays;
    for (const ScenarioRow* row : rows) {
      const bool known = std::find(delays.begin(), delays.end(), row->spec.delay_ms) != delays.end();
      if (row->spec.delay_ms > 0 && !known) delays.push_back(row->spec.delay_ms);
    }
    for (const double delay_ms : delays) {
      if (!plain.empty()) answer_delay(plain, with_delay(rows, delay_ms), out);
    }
  }
  return out;
}

Sentences batch_size(const ScenarioTable& table) {
  Sentences out;
  const std::int64_t gpus = most_gpus(table);
  for (const Rows& rows : rows_by_layers(table)) {
    Rows most;
    for (const ScenarioRow* row : rows) {
      if (row->spec.gpus == gpus) most.push_back(row);
    }
    if (most.size() > 1) answer_batches(most, out);
  }
  for (const Rows& rows : rows_by_model(table)) {
    const std::vector<ScalingPoint> points = scaling_of(rows);
    if (!points.empty()) out.push_back(work_text(rows.front()->spec) + ": " + speedups_text(points, rows.front()->spec.gpus) + ".");
  }
  return out;
}

Sentences imbalance(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    const auto plain = std::find_if(rows.begin(), rows.end(), [](auto* row) { return !row->spec.straggler; });
    for (const ScenarioRow* row : rows) {
      if (row->spec.straggler && row->spec.straggler->ms > 0 && plain != rows.end()) answer_straggler(**plain, *row, out);
    }
  }
  return out;
}

}  // namespace pdl
