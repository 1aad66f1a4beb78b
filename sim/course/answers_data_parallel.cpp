// Homework 1.4 and 1.5: DataParallel against DistributedDataParallel, delays, batches, a straggler.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/gpu_alone.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// The kind of numbers in which two rows are compared.
Side side_of_both(const ScenarioRow& a, const ScenarioRow& b) {
  return side_of(Rows{&a, &b});
}

const ScenarioRow* with_program(const Rows& rows, Program program, std::int64_t gpus) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) {
    return resolve(row->spec).program == program && row->spec.gpus == gpus;
  });
  return found == rows.end() ? nullptr : *found;
}

std::string leading_text(const EvaluatedRun& run, Side side) {
  struct Named {
    TaskKind kind;
    const char* what;
  };
  constexpr std::array kKinds = {Named{TaskKind::scatter, "scatter"},
                                 Named{TaskKind::broadcast, "broadcast of the parameters"},
                                 Named{TaskKind::gather, "gather"},
                                 Named{TaskKind::loss, "loss"},
                                 Named{TaskKind::reduce, "reduce of the gradients"},
                                 Named{TaskKind::bucket_copy_out, "sum of the gradients"},
                                 Named{TaskKind::optimizer, "optimizer"}};
  std::vector<std::string> items;
  std::int64_t sum_ns = 0;
  for (const Named& named : kKinds) {
    const std::int64_t time_ns = time_of_kind_ns(run.result, 0, named.kind);
    sum_ns += time_ns;
    if (time_ns > 0) items.push_back(std::string(named.what) + " " + ms_of(time_ns));
  }
  const std::int64_t leading = leading_ns(run.result, 0);
  constexpr std::int64_t kRounding = 10'000;
  return "GPU 0 is at what no GPU can compute beside for " + ms_of(leading) + " of a step of " +
         ms_of(run.metrics.step_ns) + ", " +
         percent(static_cast<double>(leading) / static_cast<double>(run.metrics.step_ns)) + ": " + listed(items) +
         " (" + name(side) + ")" +
         (sum_ns > leading + kRounding
              ? "; these add up to " + ms_of(sum_ns) + ", because they overlap each other or forward and backward work"
              : "");
}

/// "62 %, 41 %, 41 %, 40 %": by GPU.
std::string busy_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    text += (text.empty() ? "" : ", ") +
            whole_percent(static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns));
  }
  return text;
}

std::string memory_by_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::int64_t bytes : run.result.peak_memory_bytes) text += (text.empty() ? "" : ", ") + gib(bytes);
  return text + " GiB";
}

void compare_dp_with_ddp(const ScenarioRow& dp, const ScenarioRow& ddp, Sentences& out) {
  const Side side = side_of_both(dp, ddp);
  const EvaluatedRun &here = of(dp, side), &there = of(ddp, side);
  std::string text = work_text(dp.spec) + " on " + gpus_of(dp) + ": DataParallel takes " + ms(step_ms(dp, side)) +
                     ", DDP " + ms(step_ms(ddp, side)) + " (" + kind_text({&dp, &ddp}, side) + "), " +
                     time_against(step_ms(dp, side), step_ms(ddp, side)) + ".";
  const bool faster = step_ms(dp, Side::predicted) < step_ms(ddp, Side::predicted);
  if (side == Side::measured && faster != (step_ms(dp, side) < step_ms(ddp, side))) {
    text += " The prediction has it the other way round: " + ms(step_ms(dp, Side::predicted)) + " and " +
            ms(step_ms(ddp, Side::predicted)) + ".";
  }
  text += " Under DataParallel " + leading_text(here, side) + ".";
  text +=
      " At tasks of computation, by GPU: " + busy_by_gpu(here) + " of the step; under DDP " + busy_by_gpu(there) + ".";
  if (is_host_bound(dp) || is_host_bound(ddp))
    text +=
        " The host bounds these steps: waits for it are inside the tasks, and these shares are not work of the GPUs "
        "alone.";
  for (const EvaluatedRun* run : {&here, &there}) {
    const auto more = unusual_recording(run->result);
    if (more)
      text += " The recorded step of " + std::string(run == &here ? "DataParallel" : "DDP") + " took " +
              signed_fixed(100 * *more, 0) + " % against the median one: its shares say little.";
  }
  if (!here.result.peak_memory_bytes.empty() && !there.result.peak_memory_bytes.empty()) {
    text += " Peak memory, by GPU: " + memory_by_gpu(here) + "; under DDP " + memory_by_gpu(there) + ".";
  }
  if (side == Side::measured)
    text +=
        " Steps spread (p25 to p75) by " + spread_text(dp) + " of their median, under DDP by " + spread_text(ddp) + ".";
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

/// Two step times that are nearer cannot be told apart: the larger spread (p25 to p75) of the two, at least kTellable.
double tellable_ms(const ScenarioRow& row, const ScenarioRow& other, Side side) {
  double least_ms = kTellable * step_ms(other, side);
  for (const ScenarioRow* each : {&row, &other}) {
    const auto& step = of(*each, side).result.step_time;
    if (step.p25_ms && step.p75_ms) least_ms = std::max(least_ms, *step.p75_ms - *step.p25_ms);
  }
  return least_ms;
}

/// What the sleep adds to a step, where that is less than the sleep.
std::string hidden_sleep_text(const Rows& plain, const Rows& delayed, Side side) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : delayed) {
    const ScenarioRow* other = with_gpus(plain, row->spec.gpus);
    if (!other) continue;
    const double more_ms = step_ms(*row, side) - step_ms(*other, side);
    if (more_ms >= kWholeSleep * row->spec.delay_ms) continue;
    const bool is_told = std::abs(more_ms) >= tellable_ms(*row, *other, side);
    const std::string nothing = side == Side::measured ? "no difference beyond the spread" : "no difference";
    items.push_back((is_told ? ms(more_ms) : nothing) + " on " + gpus_of(*row));
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
    const auto other = std::find_if(plain.begin(), plain.end(),
                                    [&](const ScalingPoint& p) { return p.row->spec.gpus == point.row->spec.gpus; });
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
  std::string text =
      "What the sleep does to the ratio: it takes as long on any number of GPUs, so the ratio tends to 1, from above "
      "or from below.";
  if (!falls.empty()) text += " It falls " + listed(falls) + ".";
  if (!stays.empty()) text += " It stays " + listed(stays) + ".";
  if (!rises.empty()) text += " It rises " + listed(rises) + ".";
  if (nothing_to_lose) {
    text +=
        " Where more GPUs make the step longer without the sleep there is no speed-up above 1 to lose, and Amdahl's "
        "premise, a rest of the step that the GPUs "
        "share, fails.";
  }
  return text;
}

/// The speed-up with one delay.
struct DelayedSpeedup {
  double delay_ms, speedup;
};

/// How much of the speed-up a further millisecond takes, at the first delays and at the last ones.
std::string linearity_text(const std::vector<DelayedSpeedup>& points) {
  const auto slope = [&](std::size_t to) {
    return (points[to].speedup - points[to - 1].speedup) / (points[to].delay_ms - points[to - 1].delay_ms);
  };
  const auto each = [&](std::size_t to) {
    return signed_fixed(slope(to), 4) + " for each ms from " + to_text(points[to - 1].delay_ms) + " to " +
           to_text(points[to].delay_ms) + " ms";
  };
  const auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                                 [](const auto& a, const auto& b) { return a.speedup < b.speedup; });
  if (most->speedup / least->speedup - 1 < kTellable) return "It does not change, the delay is hidden";
  constexpr double kAsSteep = 0.8;
  const double first = std::abs(slope(1)), last = std::abs(slope(points.size() - 1));
  const bool linear = std::min(first, last) >= kAsSteep * std::max(first, last);
  return each(1) + ", " + each(points.size() - 1) + (linear ? ": nearly linear" : ": not linear") +
         ". Of a delay that shows in full it is (T1 + d) / (Tn + d), which flattens as d grows";
}

/// Does the speed-up degrade linearly in the delay? A sentence for each number of GPUs. `rows`: differ in GPUs and
/// delay.
void say_speedups_by_delay(const Rows& rows, const std::vector<double>& delays, Sentences& out) {
  std::vector<std::int64_t> counts;  // of GPUs
  for (const ScenarioRow* row : rows) {
    if (std::find(counts.begin(), counts.end(), row->spec.gpus) == counts.end()) counts.push_back(row->spec.gpus);
  }
  const Side side = side_of(rows);
  for (const std::int64_t gpus : counts) {
    std::vector<DelayedSpeedup> points;
    std::vector<std::string> items;
    std::int64_t fewest = gpus;
    for (const double delay_ms : delays) {
      for (const ScalingPoint& point : scaling_of(with_delay(rows, delay_ms), side)) {
        if (point.row->spec.gpus != gpus) continue;
        fewest = point.base->spec.gpus;
        points.push_back({delay_ms, point.gain.speedup});
        items.push_back(fixed(point.gain.speedup, 2) + " with " + to_text(delay_ms) + " ms");
      }
    }
    if (points.size() < 3) continue;
    out.push_back(model_text(rows.front()->spec) + ", " + count_of(gpus, "GPU") + " against " + std::to_string(fewest) +
                  " (" + kind_text(rows, side) + "): " + listed(items) +
                  " delay. Does the speed-up change linearly in the delay? " + linearity_text(points) + ".");
  }
}

void answer_delay(const Rows& plain, const Rows& delayed, Sentences& out) {
  Rows both = plain;
  both.insert(both.end(), delayed.begin(), delayed.end());
  const Side side = side_of(both);
  const std::vector<ScalingPoint> with = scaling_of(delayed, side), without = scaling_of(plain, side);
  if (with.empty() || without.empty()) return;
  const ScenarioRow& base = *with.front().base;
  const double delay_ms = base.spec.delay_ms, base_ms = step_ms(base, side);
  out.push_back(model_text(base.spec) + ": with a delay of " + to_text(delay_ms) + " ms a step is " +
                speedups_text(with) + "; without it " + speedups_text(without) + "." +
                (side == Side::measured ? disagreement_text(delayed) : ""));
  out.push_back(change_of_speedups(without, with) +
                (std::any_of(both.begin(), both.end(), [](auto* row) { return is_host_bound(*row); })
                     ? " The host bounds some of these steps: small differences are its noise."
                     : ""));
  const ScenarioRow* same_base = with_gpus(plain, base.spec.gpus);
  const double added_ms = same_base ? base_ms - step_ms(*same_base, side) : delay_ms;
  const bool whole = added_ms >= kWholeSleep * delay_ms;
  const double serial_ms = whole ? std::min(delay_ms, base_ms) : std::max(0.0, added_ms), serial = serial_ms / base_ms;
  constexpr double kNothing = 0.001;
  std::string text = "Amdahl: ";
  if (serial < kNothing) {
    text += "the sleep adds nothing to a step on " + gpus_of(base) + " (" + name(side) +
            "), so it is no serial part of it, and the law takes nothing away.";
  } else {
    std::vector<std::string> items;
    for (const ScalingPoint& point : with) {
      const double more = static_cast<double>(point.row->spec.gpus) / static_cast<double>(base.spec.gpus);
      items.push_back(times(1 / (serial + (1 - serial) / more)) + " on " + gpus_of(*point.row) + " (" + name(side) +
                      ": " + fixed(point.gain.speedup, 2) + ")");
    }
    text += (whole ? "the sleep is the part that more GPUs do not shorten, s = " + to_text(delay_ms)
                   : "what the sleep adds is the part that more GPUs do not shorten, s = " + fixed(serial_ms, 2)) +
            " of " + ms(base_ms) + " = " + percent(serial) + " of the step on " + gpus_of(base) + " (" + name(side) +
            "). 1 / (s + (1 - s) / n) gives " + listed(items) + ", and never more than " + times(1 / serial) +
            " on any number of GPUs.";
  }
  out.push_back(
      text +
      " What is missing to the law is what does not scale without the delay either: communication and the host." +
      hidden_sleep_text(plain, delayed, side));
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

// ---- HW1.5C

void answer_straggler(const ScenarioRow& plain, const ScenarioRow& straggling, Sentences& out) {
  const Side side = side_of_both(plain, straggling);
  const Straggler& straggler = *straggling.spec.straggler;
  const double more_ms = step_ms(straggling, side) - step_ms(plain, side);
  const auto gpus = static_cast<double>(straggling.spec.gpus);
  const EvaluatedRun &here = of(straggling, side), &there = of(plain, side);
  double idle_ms = 0;
  for (std::size_t g = 0; g < here.metrics.gpus.size(); ++g) {
    if (static_cast<std::int64_t>(g) == straggler.rank) continue;
    idle_ms =
        std::max(idle_ms, static_cast<double>(here.metrics.gpus[g].idle_ns - there.metrics.gpus[g].idle_ns) / 1e6);
  }
  out.push_back(
      work_text(plain.spec) + " on " + gpus_of(plain) + ": rank " + std::to_string(straggler.rank) + " sleeps " +
      ms(straggler.ms) + ", the step of everyone takes " + ms(step_ms(straggling, side)) + " instead of " +
      ms(step_ms(plain, side)) + " (" + kind_text({&plain, &straggling}, side) + "): " + ms(more_ms) + " more, " +
      whole_percent(more_ms / straggler.ms) + " of the sleep. The other GPUs wait" +
      (resolve(plain.spec).program == Program::ddp ? " in their first all-reduce" : "") + ", up to " + ms(idle_ms) +
      " longer than before; together the " + gpus_of(plain) + " lose " + ms(gpus * more_ms) + " of GPU time a step, " +
      fixed(gpus * more_ms / straggler.ms, 1) + " times what one of them sleeps. Throughput falls to " +
      percent(step_ms(plain, side) / step_ms(straggling, side)) + ".");
}

}  // namespace

Sentences dataparallel_ddp(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    for (const ScenarioRow* row : rows) {
      if (resolve(row->spec).program != Program::data_parallel) continue;
      if (const ScenarioRow* ddp = with_program(rows, Program::ddp, row->spec.gpus))
        compare_dp_with_ddp(*row, *ddp, out);
    }
  }
  return out;
}

Sentences artificial_delay(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_alike(table, {"gpus", "delay-ms"})) {
    std::vector<double> delays;  // ascending
    for (const ScenarioRow* row : rows) delays.push_back(row->spec.delay_ms);
    std::sort(delays.begin(), delays.end());
    delays.erase(std::unique(delays.begin(), delays.end()), delays.end());
    if (delays.size() > 2) say_speedups_by_delay(rows, delays, out);
    if (delays.size() > 1 && delays.front() == 0)
      answer_delay(with_delay(rows, 0), with_delay(rows, delays.back()), out);
  }
  return out;
}

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

Sentences imbalance(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_alike(table, {"straggler"})) {
    const auto plain = std::find_if(rows.begin(), rows.end(), [](auto* row) { return !row->spec.straggler; });
    for (const ScenarioRow* row : rows) {
      if (row->spec.straggler && row->spec.straggler->ms > 0 && plain != rows.end())
        answer_straggler(**plain, *row, out);
    }
  }
  return out;
}

}  // namespace pdl
