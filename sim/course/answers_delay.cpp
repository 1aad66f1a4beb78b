// Homework 1.5A: a host that sleeps before the backward, and what is left of the speed-up.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

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
        "premise, a rest of the step that the GPUs share, fails.";
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

/// What the law says of the sleep as a serial part. `with`: speed-ups with the sleep, one at least.
std::string amdahl_text(const Rows& plain, const std::vector<ScalingPoint>& with, Side side) {
  const ScenarioRow& base = *with.front().base;
  const double delay_ms = base.spec.delay_ms, base_ms = step_ms(base, side);
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
  return text +
         " What is missing to the law is what does not scale without the delay either: communication and the host.";
}

void answer_delay(const Rows& plain, const Rows& delayed, Sentences& out) {
  Rows both = plain;
  both.insert(both.end(), delayed.begin(), delayed.end());
  const Side side = side_of(both);
  const std::vector<ScalingPoint> with = scaling_of(delayed, side), without = scaling_of(plain, side);
  if (with.empty() || without.empty()) return;
  const ScenarioRow& base = *with.front().base;
  out.push_back(model_text(base.spec) + ": with a delay of " + to_text(base.spec.delay_ms) + " ms a step is " +
                speedups_text(with) + "; without it " + speedups_text(without) + "." +
                (side == Side::measured ? disagreement_text(delayed) : ""));
  out.push_back(change_of_speedups(without, with) +
                (std::any_of(both.begin(), both.end(), [](auto* row) { return is_host_bound(*row); })
                     ? " The host bounds some of these steps: small differences are its noise."
                     : ""));
  out.push_back(amdahl_text(plain, with, side) + hidden_sleep_text(plain, delayed, side));
}

}  // namespace

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

}  // namespace pdl
