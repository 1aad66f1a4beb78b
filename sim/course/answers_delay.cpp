// Homework 1.5A: a host that sleeps before the backward, and what is left of the speed-up.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/course/straight_line.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// Of one model and batch on one machine: the series without a sleep and the one with the delay that most GPUs have.
struct DelayPair {
  Series plain, delayed;
};

/// Rows of both that have the same numbers of GPUs, all of one kind and machine.
std::vector<DelayPair> delay_pairs(const Tables& tables) {
  constexpr double kOfTheSheet_ms = 10;
  std::vector<DelayPair> pairs;
  const std::vector<Series> all = series_over(tables, {"gpus"});
  for (const Series& plain : all) {
    const RunSpec& spec = plain.rows.front()->spec;
    if (spec.delay_ms != 0 || plain.rows.size() < 2) continue;
    const Series* best = nullptr;
    for (const Series& series : all) {
      const RunSpec& own = series.rows.front()->spec;
      const bool same = own.depth == spec.depth && own.dim == spec.dim && own.batch == spec.batch;
      if (!same || own.delay_ms == 0 || series.table != plain.table || series.side != plain.side) continue;
      const auto distance = [&](const Series& s) { return std::abs(s.rows.front()->spec.delay_ms - kOfTheSheet_ms); };
      if (series.rows.size() == plain.rows.size() && (!best || distance(series) < distance(*best))) best = &series;
    }
    if (best) pairs.push_back({plain, *best});
  }
  return pairs;
}

std::string times_on_gpus(const Series& series) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows) items.push_back(fixed(step_ms(series, *row), 2));
  return listed(items) + " ms";
}

std::string gpus_of_series(const Series& series) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows) items.push_back(std::to_string(row->spec.gpus));
  return listed(items) + " GPUs";
}

ScalingPoint last_of(const Series& series) {
  return scaling_of(series.rows, series.side).back();
}

/// Series over delays on more than one GPU, three delays and more.
std::vector<Series> delay_series(const Tables& tables) {
  std::vector<Series> all;
  for (Series series : series_over(tables, {"delay-ms"})) {
    if (series.rows.size() < 3 || series.rows.front()->spec.gpus == 1) continue;
    std::stable_sort(series.rows.begin(), series.rows.end(),
                     [](auto* a, auto* b) { return a->spec.delay_ms < b->spec.delay_ms; });
    all.push_back(series);
  }
  // What was measured comes first, and of it the longest series.
  std::stable_sort(all.begin(), all.end(), [](const Series& a, const Series& b) {
    const auto rank = [](const Series& s) { return std::make_pair(s.side == Side::measured, s.rows.size()); };
    return rank(a) > rank(b);
  });
  return all;
}

/// The rows whose step is longer than that of the smallest delay: there the forward does not hide the sleep.
Rows not_hidden(const Series& series) {
  const auto first = std::find_if(series.rows.begin(), series.rows.end(), [&](const ScenarioRow* row) {
    return difference_to(step_ms(series, *row), step_ms(series, *series.rows.front())) == Difference::more;
  });
  return {first, series.rows.end()};
}

/// "from a delay of 2 ms on, step time = 11.98 ms + 1.03 x delay, off by at most 0.08 ms".
std::string fit_text(const Series& series) {
  const Rows rows = not_hidden(series);
  const ScenarioRow &front = *series.rows.front(), &back = *series.rows.back();
  if (rows.empty())
    return "hidden up to a delay of " + to_text(back.spec.delay_ms) + " ms, " + ms(step_ms(series, front)) + " and " +
           ms(step_ms(series, back));
  const std::string from = "from a delay of " + to_text(rows.front()->spec.delay_ms) + " ms on, ";
  std::vector<double> delays, times;
  for (const ScenarioRow* row : rows) {
    delays.push_back(row->spec.delay_ms);
    times.push_back(step_ms(series, *row));
  }
  if (rows.size() < 2) return from + ms(times.front()) + " instead of " + ms(step_ms(series, front));
  const StraightLine line = straight_line(delays, times);
  return from + "step time = " + ms(line.intercept) + " + " + fixed(line.slope, 2) + " x delay" +
         (rows.size() > 2 ? ", off by at most " + ms(line.largest_residual) : "");
}

/// ", speed-up over 1 GPU 0.80 with 0 ms, ...": over the delays of a series.
std::string speedups_by_delay(const Series& series) {
  const RunSpec& spec = series.rows.front()->spec;
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows) {
    for (const ScenarioRow& base : series.table->rows) {
      const RunSpec& own = base.spec;
      const bool same = own.gpus == 1 && own.depth == spec.depth && own.dim == spec.dim && own.batch == spec.batch &&
                        own.delay_ms == row->spec.delay_ms;
      if (!same || (series.side == Side::measured && !base.measured)) continue;
      items.push_back(fixed(step_ms(base, series.side) / step_ms(series, *row), 2) + " with " +
                      to_text(row->spec.delay_ms) + " ms");
    }
  }
  return items.size() < 2 ? "" : "; speed-up over 1 GPU " + listed(items);
}

/// A sleep that adds so much of its length is a serial part; the rest is hidden behind the forward.
double serial_ms(const DelayPair& pair) {
  const double added_ms =
      step_ms(pair.delayed, *pair.delayed.rows.front()) - step_ms(pair.plain, *pair.plain.rows.front());
  return std::max(0.0, added_ms);
}

std::string amdahl_of(const DelayPair& pair) {
  const ScalingPoint point = last_of(pair.delayed);
  const double base_ms = step_ms(pair.delayed, *point.base), serial = serial_ms(pair) / base_ms;
  const double more = static_cast<double>(point.row->spec.gpus) / static_cast<double>(point.base->spec.gpus);
  const std::string of = model_text(point.row->spec) + " (" + source_of(pair.delayed) + "): ";
  constexpr double kNothing = 0.005;
  if (serial < kNothing)
    return of + "the sleep of " + to_text(point.row->spec.delay_ms) + " ms is hidden behind the forward, s = 0, and " +
           fixed(point.gain.speedup, 2) + " on " + gpus_of(*point.row) + " is what it is without";
  return of + "the sleep is " + ms(serial_ms(pair)) + " of the " + ms(base_ms) + " on " + gpus_of(*point.base) +
         ", s = " + whole_percent(serial) + "; the law allows " + fixed(1 / (serial + (1 - serial) / more), 2) +
         " on " + gpus_of(*point.row) + ", it is " + fixed(point.gain.speedup, 2);
}

}  // namespace

std::string hw1_5a_experiment(const Tables& tables) {
  std::string text;
  for (const DelayPair& pair : delay_pairs(tables)) {
    const RunSpec& spec = pair.delayed.rows.front()->spec;
    text += (text.empty() ? "" : " ") + model_text(spec) + " (" + source_of(pair.delayed) + "), on " +
            gpus_of_series(pair.delayed) + ": " + times_on_gpus(pair.plain) + " without a delay, " +
            times_on_gpus(pair.delayed) + " with " + to_text(spec.delay_ms) + " ms.";
  }
  return text;
}

std::string hw1_5a_speedup(const Tables& tables) {
  std::vector<std::string> towards_1, unchanged, away;
  bool no_gain = false;
  for (const DelayPair& pair : delay_pairs(tables)) {
    const ScalingPoint with = last_of(pair.delayed), without = last_of(pair.plain);
    const double before = without.gain.speedup, after = with.gain.speedup;
    const std::string place =
        " on " + gpus_of(*with.row) + " (" + model_text(with.row->spec) + ", " + source_of(pair.delayed) + ")";
    if (difference_to(after, before) == Difference::none) {
      const bool hidden =
          difference_to(step_ms(pair.delayed, *with.row), step_ms(pair.plain, *without.row)) == Difference::none;
      unchanged.push_back(fixed(after, 2) + place + (hidden ? ", where the forward of the GPUs hides the sleep" : ""));
      continue;
    }
    no_gain = no_gain || before < 1;
    (std::abs(after - 1) < std::abs(before - 1) ? towards_1 : away)
        .push_back("from " + fixed(before, 2) + " to " + fixed(after, 2) + place);
  }
  std::string text;
  if (!towards_1.empty())
    text = " It goes towards 1, from above or from below, because all GPUs wait equally long: " + listed(towards_1) +
           "." + (no_gain ? " The sheet expects a speed-up that shrinks; below 1 there is none to lose." : "");
  if (!unchanged.empty()) text += " It stays " + listed(unchanged) + ".";
  if (!away.empty()) text += " It goes away from 1: " + listed(away) + ".";
  return text.empty() ? "" : text.substr(1);
}

std::string hw1_5a_is_it_linear(const Tables& tables) {
  const std::vector<Series> all = delay_series(tables);
  if (all.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 2); ++i) {
    const ScenarioRow& row = *all[i].rows.front();
    text += " " + model_text(row.spec) + " on " + gpus_of(row) + " (" + source_of(all[i]) + ", " +
            count_of(std::ssize(all[i].rows), "delay") + "): " + fit_text(all[i]) + speedups_by_delay(all[i]) + ".";
  }
  return "The step time is linear where the forward does not hide the sleep; the speed-up, the quotient of two such "
         "lines, is not." +
         text;
}

std::string hw1_5a_amdahl(const Tables& tables) {
  std::string text;
  for (const DelayPair& pair : delay_pairs(tables)) text += (text.empty() ? "" : "; ") + amdahl_of(pair);
  if (text.empty()) return "";
  return "The sleep is a serial part s, and 1 / (s + (1 - s) / n) the limit. " + text +
         ". What the law leaves out is what does not scale without a delay either: the exchange and the host.";
}

}  // namespace pdl
