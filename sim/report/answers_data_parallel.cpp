// Homework 1: DataParallel and DistributedDataParallel.
#include "sim/report/exercises.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

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

/// Of each row of a group against the one with the fewest GPUs, which is not among them. All of one kind; measured: of the rows
/// that were, none if the one with the fewest GPUs was not.
std::vector<ScalingPoint> scaling_of(Rows rows, Side side) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.gpus < b->spec.gpus; });
  const ScenarioRow& base = *rows.front();
  std::vector<ScalingPoint> points;
  if (side == Side::measured && !base.measured) return points;
  for (const ScenarioRow* row : rows) {
    if (row->spec.gpus == base.spec.gpus || (side == Side::measured && !row->measured)) continue;
    points.push_back({row, side, speedup_against({step_ms(base, side), base.spec.gpus}, {step_ms(*row, side), row->spec.gpus})});
  }
  return points;
}

/// The measured series of a group, and the predicted one where that has more rows: a series of both kinds would show a trend
/// that is only their difference.
std::vector<std::vector<ScalingPoint>> series_of(const Rows& rows) {
  std::vector<std::vector<ScalingPoint>> series;
  const auto measured = scaling_of(rows, Side::measured), predicted = scaling_of(rows, Side::predicted);
  if (!measured.empty()) series.push_back(measured);
  if (predicted.size() > measured.size()) series.push_back(predicted);
  return series;
}

/// `points`: one at least, all of one kind.
std::string speedups_text(const std::vector<ScalingPoint>& points, std::int64_t fewest) {
  std::vector<std::string> items;
  for (const ScalingPoint& point : points) {
    items.push_back(times(point.gain.speedup) + " on " + gpus_of(*point.row) + " (efficiency " + whole_percent(point.gain.efficiency) + ")");
  }
  const std::string kind = name(points.front().side);
  return listed(items) + " as fast as on " + count_of(fewest, "GPU") + " (" + kind + " against " + kind + ")";
}

/// " Measured and predicted disagree ...", where one says that more GPUs help and the other that they do not.
std::string disagreement_text(const Rows& rows) {
  std::vector<std::string> items;
  const auto predicted = scaling_of(rows, Side::predicted);
  for (const ScalingPoint& own : scaling_of(rows, Side::measured)) {
    const auto other = std::find_if(predicted.begin(), predicted.end(), [&](const ScalingPoint& p) { return p.row == own.row; });
    const double measured = own.gain.speedup, as_predicted = other->gain.speedup;
    if ((measured > 1) == (as_predicted > 1) || std::abs(measured - as_predicted) < kTellable) continue;
    items.push_back(fixed(measured, 2) + " and " + fixed(as_predicted, 2) + " times as fast on " + gpus_of(*own.row));
  }
  return items.empty() ? "" : " Measured and predicted disagree on whether more GPUs help: " + listed(items) + ".";
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

/// Said once where numbers of host-bound rows are beside others.
std::string host_bound_note(const Rows& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](auto* row) { return is_host_bound(*row); })) return "";
  return " Host-bound: tasks have waits for the host inside, and what they would hide says nothing about computation.";
}

/// Without the kind of the numbers, which the sentence says.
std::string communication_text(const ScenarioRow& row, Side side) {
  const EvaluatedRun& run = of(row, side);
  const CommunicationTime time = communication_time(run.result, run.metrics);
  const double hidden = time.running_ns == 0 ? 0 : 1 - static_cast<double>(time.exposed_ns) / static_cast<double>(time.running_ns);
  return "communication runs " + ms_of(time.running_ns) + " of " + ms_of(run.metrics.step_ns) + ", of which " + ms_of(time.exposed_ns) + ", " +
         percent(exposed_communication_fraction(run.metrics)) + " of the step, are exposed (" +
         (is_host_bound(row) ? "host-bound" : whole_percent(hidden) + " hidden behind computation") +
         recording_text(run) + ")";
}

/// One sentence a series: "Measured: on 2 GPUs communication runs ...; on 4 GPUs ...".
std::string communication_of_series(const std::vector<ScalingPoint>& points) {
  std::string text = points.front().side == Side::measured ? "Measured: " : "Predicted: ";
  Rows rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    text += (i == 0 ? "on " : "; on ") + gpus_of(*points[i].row) + " " + communication_text(*points[i].row, points[i].side);
    rows.push_back(points[i].row);
  }
  return text + "." + host_bound_note(rows);
}

// ---- HW1.3

constexpr double kHiddenShare = 0.05;

/// Rows of one model on so many GPUs that communicate, fewest samples a GPU first; those whose rounds differ apart.
std::vector<Rows> rows_by_size(const ScenarioTable& table, std::int64_t gpus) {
  std::vector<Rows> groups;
  for (const ScenarioRow& row : table.rows) {
    const bool communicates = communication_time(row.predicted.result, row.predicted.metrics).running_ns > 0;
    if (row.spec.gpus != gpus || !communicates) continue;
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Rows& group) {
      const RunSpec& spec = group.front()->spec;
      return same_model(spec, row.spec) && spec.accum == row.spec.accum && spec.no_sync == row.spec.no_sync;
    });
    if (known == groups.end()) {
      groups.push_back({&row});
    } else {
      known->push_back(&row);
    }
  }
  for (Rows& group : groups) {
    std::stable_sort(group.begin(), group.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
  }
  return groups;
}

/// "256 samples a GPU".
std::string samples_a_gpu(const ScenarioRow& row) {
  return to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus)) + " samples a GPU";
}

/// Shares of a group are of one kind: measured if every row has one that counts.
Side side_of_shares(const Rows& rows) {
  const bool measured = std::all_of(rows.begin(), rows.end(), [](auto* row) { return side_of_shares(*row) == Side::measured; });
  return measured ? Side::measured : Side::predicted;
}

double exposed_share(const ScenarioRow& row, Side side) { return exposed_communication_fraction(of(row, side).metrics); }

std::string exposed_text(const ScenarioRow& row, Side side) { return percent(exposed_share(row, side)) + " exposed with " + samples_a_gpu(row); }

/// What was measured of a group that is said as predicted: "Measured of these: 41.4 % exposed with 16 samples a GPU and ...".
std::string measured_shares(const Rows& rows) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : rows) {
    if (side_of_shares(*row) == Side::measured && !is_host_bound(*row)) items.push_back(exposed_text(*row, Side::measured));
  }
  return items.empty() ? "" : "Measured of these: " + listed(items) + ".";
}

/// Backward work of a GPU that could hide the exchange, against the exchange itself.
std::string hiding_text(const ScenarioRow& row, Side side) {
  const CommunicationTime time = communication_time(of(row, side).result, of(row, side).metrics);
  const double longer = static_cast<double>(time.backward_ns) / static_cast<double>(time.running_ns);
  return work_text(row.spec) + " on " + gpus_of(row) + ", " + samples_a_gpu(row) + " (" + name(side) + "): " + communication_text(row, side) +
         (is_host_bound(row) ? "" : "; the backward takes " + fixed(longer, 2) + " times as long as the exchange") + ".";
}

/// "8 layers of 8192, from 256 samples a GPU on (...)". `rows`: one of rows_by_size(). Host-bound rows say nothing.
std::string hidden_from(const Rows& rows, Side side) {
  const RunSpec& spec = rows.front()->spec;
  const std::string model = layers_text(spec) + (spec.accum > 1 ? " with " + count_of(spec.accum, "round") : "") + ": ";
  Rows usable;
  for (const ScenarioRow* row : rows) {
    if (!is_host_bound(*row)) usable.push_back(row);
  }
  if (usable.empty()) return model + "no size follows, the host bounds every row";
  const auto text = [&](const ScenarioRow* row) { return exposed_text(*row, side); };
  std::size_t from = usable.size();
  while (from > 0 && exposed_share(*usable[from - 1], side) < kHiddenShare) --from;
  if (from == usable.size()) return model + "in no row (" + text(usable.back()) + "; " + name(side) + ")";
  return model + "from " + samples_a_gpu(*usable[from]) + " on, of the rows (" + (from > 0 ? text(usable[from - 1]) + ", " : "") + text(usable[from]) + "; " + name(side) + ")";
}

/// The bucket that no backward is left to hide; nothing where every row has several exchanges a step.
std::string last_bucket_text(const std::vector<Rows>& groups) {
  std::vector<std::string> items;
  for (const Rows& rows : groups) {
    const RunSpec& spec = rows.front()->spec;
    const std::vector<std::int64_t>& bytes = rows.front()->predicted.result.collective_bytes;
    if (spec.strategy != Strategy::ddp || spec.accum > 1 || bytes.empty()) continue;
    const double all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
    items.push_back(percent(static_cast<double>(bytes.back()) / all) + " of the gradients of " + layers_text(spec) + " (" +
                    count_of(static_cast<std::int64_t>(bytes.size()), "bucket") + ")");
  }
  if (items.empty()) return "";
  return "What no backward hides is the last bucket, which is ready only when the backward ends: " + listed(items) +
         ". The fewer the buckets, the more of the exchange that is.";
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
  std::int64_t sum_ns = 0;
  for (const Named& named : kKinds) {
    const std::int64_t time_ns = time_of_kind_ns(run.result, 0, named.kind);
    sum_ns += time_ns;
    if (time_ns > 0) items.push_back(std::string(named.what) + " " + ms_of(time_ns));
  }
  const std::int64_t leading = leading_ns(run.result, 0);
  constexpr std::int64_t kRounding = 10'000;
  return "GPU 0 is at what no GPU can compute beside for " + ms_of(leading) + " of a step of " + ms_of(run.metrics.step_ns) + ", " +
         percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) + ": " + listed(items) + " (" + name(side) + ")" +
         (sum_ns > leading + kRounding ? "; these add up to " + ms_of(sum_ns) + ", because they overlap each other or forward and backward work" : "");
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
                     " (" + kind_text({&dp, &ddp}, side) + "), " + time_against(step_ms(dp, side), step_ms(ddp, side)) + ".";
  const bool faster = step_ms(dp, Side::predicted) < step_ms(ddp, Side::predicted);
  if (side == Side::measured && faster != (step_ms(dp, side) < step_ms(ddp, side))) {
    text += " The prediction has it the other way round: " + ms(step_ms(dp, Side::predicted)) + " and " + ms(step_ms(ddp, Side::predicted)) + ".";
  }
  text += " Under DataParallel " + leading_text(here, side) + ".";
  text += " At tasks of computation, by GPU: " + busy_by_gpu(here) + " of the step; under DDP " + busy_by_gpu(there) + ".";
  if (is_host_bound(dp) || is_host_bound(ddp)) text += " The host bounds these steps: waits for it are inside the tasks, and these shares are not work of the GPUs alone.";
  for (const EvaluatedRun* run : {&here, &there}) {
    const auto more = unusual_recording(run->result);
    if (more) text += " The recorded step of " + std::string(run == &here ? "DataParallel" : "DDP") + " took " + signed_fixed(100 * *more, 0) + " % against the median one: its shares say little.";
  }
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

/// The row of a group with as many GPUs; nullptr if there is none.
const ScenarioRow* with_gpus(const Rows& rows, std::int64_t gpus) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) { return row->spec.gpus == gpus; });
  return found == rows.end() ? nullptr : *found;
}

/// The host's clock and its wake-up: a sleep that adds so much of its length is not hidden.
constexpr double kWholeSleep = 0.95;

/// What the sleep adds to a step, where that is less than the sleep.
std::string hidden_sleep_text(const Rows& plain, const Rows& delayed, Side side) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : delayed) {
    const ScenarioRow* other = with_gpus(plain, row->spec.gpus);
    if (!other) continue;
    const double more_ms = step_ms(*row, side) - step_ms(*other, side);
    if (more_ms < kWholeSleep * row->spec.delay_ms) items.push_back(ms(more_ms) + " on " + gpus_of(*row));
  }
  if (items.empty()) return "";
  return " The sleep adds less than its length to a step, " + listed(items) + " (" + name(side) +
         "): the host runs ahead, and the GPUs are still at the forward while it sleeps.";
}

/// From the speed-ups without the sleep to those with it.
std::string change_of_speedups(const std::vector<ScalingPoint>& plain, const std::vector<ScalingPoint>& delayed) {
  std::vector<std::string> falls, rises, stays;
  bool nothing_to_lose = false;
  for (const ScalingPoint& point : delayed) {
    const auto other = std::find_if(plain.begin(), plain.end(), [&](const ScalingPoint& p) { return p.row->spec.gpus == point.row->spec.gpus; });
    if (other == plain.end()) continue;
    const double before = other->gain.speedup, after = point.gain.speedup;
    const std::string text = "on " + gpus_of(*point.row) + " from " + fixed(before, 2) + " to " + fixed(after, 2);
    if (std::abs(after / before - 1) < kTellable) {
      stays.push_back("on " + gpus_of(*point.row) + " at " + fixed(after, 2));
    } else {
      (after < before ? falls : rises).push_back(text);
    }
    nothing_to_lose = nothing_to_lose || (before < 1 && after > before);
  }
  std::string text = "What the sleep does to the ratio: it takes as long on any number of GPUs, so the ratio tends to 1, from above or from below.";
  if (!falls.empty()) text += " It falls " + listed(falls) + ".";
  if (!stays.empty()) text += " It stays " + listed(stays) + ".";
  if (!rises.empty()) text += " It rises " + listed(rises) + ".";
  if (nothing_to_lose) {
    text += " Where more GPUs make the step longer without the sleep there is no speed-up above 1 to lose, and Amdahl's premise, a rest of the step that the GPUs "
            "share, fails.";
  }
  return text;
}

void answer_delay(const Rows& plain, const Rows& delayed, Sentences& out) {
  Rows both = plain;
  both.insert(both.end(), delayed.begin(), delayed.end());
  const Side side = side_of(both);
  const ScenarioRow &base = *delayed.front(), &plain_base = *plain.front();
  const std::vector<ScalingPoint> with = scaling_of(delayed, side), without = scaling_of(plain, side);
  if (with.empty() || without.empty()) return;
  const double delay_ms = base.spec.delay_ms, base_ms = step_ms(base, side);
  out.push_back(model_text(base.spec) + ": with a delay of " + to_text(delay_ms) + " ms a step is " + speedups_text(with, base.spec.gpus) + "; without it " +
                speedups_text(without, plain_base.spec.gpus) + "." + (side == Side::measured ? disagreement_text(delayed) : ""));
  out.push_back(change_of_speedups(without, with) +
                (std::any_of(both.begin(), both.end(), [](auto* row) { return is_host_bound(*row); }) ? " The host bounds some of these steps: small differences are its noise." : ""));
  const ScenarioRow* same_base = with_gpus(plain, base.spec.gpus);
  const double added_ms = same_base ? base_ms - step_ms(*same_base, side) : delay_ms;
  const bool whole = added_ms >= kWholeSleep * delay_ms;
  const double serial_ms = whole ? std::min(delay_ms, base_ms) : std::max(0.0, added_ms), serial = serial_ms / base_ms;
  constexpr double kNothing = 0.001;
  std::string text = "Amdahl: ";
  if (serial < kNothing) {
    text += "the sleep adds nothing to a step on " + gpus_of(base) + " (" + name(side) + "), so it is no serial part of it, and the law takes nothing away.";
  } else {
    std::vector<std::string> items;
    for (const ScalingPoint& point : with) {
      const double more = static_cast<double>(point.row->spec.gpus) / static_cast<double>(base.spec.gpus);
      items.push_back(times(1 / (serial + (1 - serial) / more)) + " on " + gpus_of(*point.row) + " (" + name(side) + ": " + fixed(point.gain.speedup, 2) + ")");
    }
    text += (whole ? "the sleep is the part that more GPUs do not shorten, s = " + to_text(delay_ms)
                   : "what the sleep adds is the part that more GPUs do not shorten, s = " + fixed(serial_ms, 2)) +
            " of " + ms(base_ms) + " = " + percent(serial) + " of the step on " + gpus_of(base) + " (" + name(side) + "). 1 / (s + (1 - s) / n) gives " + listed(items) +
            ", and never more than " + times(1 / serial) + " on any number of GPUs.";
  }
  out.push_back(text + " What is missing to the law is what does not scale without the delay either: communication and the host." + hidden_sleep_text(plain, delayed, side));
}

// ---- HW1.5B

/// Between a row and the one with the next larger batch.
struct BatchStep {
  const ScenarioRow *from, *to;
  double batch;       // times as large
  double throughput;  // times the samples/s

  bool is_doubling() const { return std::abs(batch - 2) < 1e-9; }
  /// Of each doubling, as if all between the two were alike.
  double mean_gain() const { return std::pow(throughput, 1 / std::log2(batch)); }
  std::string range() const { return "from " + std::to_string(from->spec.batch) + " to " + std::to_string(to->spec.batch); }
};

/// `rows`: by batch, each once.
std::vector<BatchStep> batch_steps(const Rows& rows, Side side) {
  std::vector<BatchStep> steps;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double batch = static_cast<double>(rows[i]->spec.batch) / static_cast<double>(rows[i - 1]->spec.batch);
    steps.push_back({rows[i - 1], rows[i], batch, batch * step_ms(*rows[i - 1], side) / step_ms(*rows[i], side)});
  }
  return steps;
}

/// A doubling of the batch that brings less does not pay.
constexpr double kPayingGain = 1.5;

/// Where a series stops paying. What is not a doubling says only that it is somewhere inside.
std::string where_it_stops(const std::vector<BatchStep>& steps, bool host_bound) {
  const std::string meant = "Larger batches stop paying where a doubling brings less than " + times(kPayingGain) + " the samples/s: ";
  const auto stop = std::find_if(steps.begin(), steps.end(), [](const BatchStep& step) { return step.mean_gain() < kPayingGain; });
  if (stop == steps.end()) {
    return meant + "nowhere in these rows, " +
           (host_bound ? "because the step is as long as the host takes to issue it, whatever the batch."
                       : "because the time that does not depend on the batch (exchange of gradients, optimizer, host) is shared by more samples.");
  }
  const std::string why = ", because the computation, which grows with the batch, is most of the step.";
  if (stop->is_doubling()) return meant + stop->range() + " (x " + fixed(stop->throughput, 2) + ")" + why;
  return meant + "somewhere " + stop->range() + ", where " + to_text(stop->batch) + " times the batch bring " + times(stop->throughput) +
         " the samples/s; which doubling it is these rows do not say" + why;
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
      text += " (x " + fixed(step.throughput, 2) + (step.is_doubling() ? "" : " with " + to_text(step.batch) + " times the batch") + ")";
      above_two = above_two || step.mean_gain() > 2 * (1 + kTellable);
    }
    items.push_back(text);
  }
  out.push_back(layers_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + " (" + kind_text(rows, side) + "): " + listed(items) + ". " + where_it_stops(steps, host_bound) +
                (host_bound && above_two ? " More than 2 a doubling is noise of the host that bounds these steps, nothing that a batch can bring." : ""));
}

/// Of one kind: those that were measured, or all.
Rows rows_of_side(const Rows& rows, Side side) {
  Rows found;
  for (const ScenarioRow* row : rows) {
    if (side == Side::predicted || row->measured) found.push_back(row);
  }
  return found;
}

/// "8 layers of 8192, 4 GPUs against 1 (measured): batch 32 0.60 times as fast (efficiency 15 %), ...". `groups`: rows with one batch.
std::string speedups_by_batch(const std::vector<Rows>& groups, Side side) {
  std::vector<std::string> items;
  std::string head;
  for (const Rows& rows : groups) {
    for (const ScalingPoint& point : scaling_of(rows, side)) {
      head = layers_text(point.row->spec) + ", " + gpus_of(*point.row) + " against " + std::to_string(rows.front()->spec.gpus) + " (" + name(side) + "): ";
      items.push_back("batch " + std::to_string(point.row->spec.batch) + " " + times(point.gain.speedup) + " as fast (efficiency " + whole_percent(point.gain.efficiency) + ")");
    }
  }
  return items.empty() ? "" : head + listed(items) + ".";
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
                ms(step_ms(straggling, side)) + " instead of " + ms(step_ms(plain, side)) + " (" + kind_text({&plain, &straggling}, side) + "): " + ms(more_ms) + " more, " +
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
  if (out.empty()) out.push_back("Warm-up: no run here was measured with the times of its first steps; a prediction is of a step as it is after them.");
  out.push_back("Why warm-up matters: the first steps create what later ones use again: the CUDA context, the handles and workspaces of cuBLAS and NCCL, the "
                "allocator's blocks.");
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
    const std::vector<std::vector<ScalingPoint>> series = series_of(rows);
    if (series.empty()) continue;
    std::int64_t fewest = rows.front()->spec.gpus;
    for (const ScenarioRow* row : rows) fewest = std::min(fewest, row->spec.gpus);
    bool linear = true, slower = false;
    std::string text;
    for (const std::vector<ScalingPoint>& points : series) {
      linear = linear && std::all_of(points.begin(), points.end(), [](const ScalingPoint& p) { return p.gain.efficiency >= kLinearEfficiency; });
      slower = slower || std::any_of(points.begin(), points.end(), [](const ScalingPoint& p) { return p.gain.speedup < 1; });
      text += (text.empty() ? "" : " All rows as predicted: ") + speedups_text(points, fewest) + ".";
    }
    out.push_back(work_text(rows.front()->spec) + ": is it linear? " + (linear ? "Nearly: " : "No: ") + text + (slower ? " Below 1 more GPUs make the step longer." : "") +
                  disagreement_text(rows));
    out.push_back(drop_text(series.front(), fewest));
    for (const std::vector<ScalingPoint>& points : series) out.push_back(communication_of_series(points));
  }
  return out;
}

Sentences communication_computation(const ScenarioTable& table) {
  Sentences out;
  const std::int64_t gpus = most_gpus(table);
  const std::vector<Rows> groups = rows_by_size(table, gpus);
  std::vector<std::string> sizes;
  Rows all;
  for (const Rows& rows : groups) {
    const Side side = side_of_shares(rows);
    for (const ScenarioRow* row : rows) out.push_back(hiding_text(*row, side));
    if (side == Side::predicted) {
      if (const std::string measured = measured_shares(rows); !measured.empty()) out.push_back(measured);
    }
    all.insert(all.end(), rows.begin(), rows.end());
    sizes.push_back(hidden_from(rows, side));
  }
  std::string answer = "From which size on does computation hide communication, all but " + percent(kHiddenShare) + " of the step, on " + count_of(gpus, "GPU") + "? ";
  for (std::size_t i = 0; i < sizes.size(); ++i) answer += (i == 0 ? "" : ". ") + sizes[i];
  out.push_back(answer + (sizes.empty() ? "No row communicates." : ".") + host_bound_note(all));
  if (const std::string last = last_bucket_text(groups); !last.empty()) out.push_back(last);
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
  for (const Rows& rows : rows_by_batch(table)) {
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
  const std::vector<Rows> batches = rows_by_model(table);
  for (const Rows& rows : rows_by_layers(table)) {
    Rows most;
    for (const ScenarioRow* row : rows) {
      if (row->spec.gpus == gpus) most.push_back(row);
    }
    const Rows measured = rows_of_side(most, Side::measured);
    if (measured.size() > 1) answer_batches(measured, Side::measured, out);
    if (most.size() > 1 && measured.size() < most.size()) answer_batches(most, Side::predicted, out);
    std::vector<Rows> own;
    for (const Rows& of_batch : batches) {
      if (same_model(of_batch.front()->spec, rows.front()->spec)) own.push_back(of_batch);
    }
    const std::string as_measured = speedups_by_batch(own, Side::measured);
    if (!as_measured.empty()) out.push_back(as_measured);
    if (measured.size() < most.size() || as_measured.empty()) {
      if (const std::string predicted = speedups_by_batch(own, Side::predicted); !predicted.empty()) out.push_back(predicted);
    }
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
