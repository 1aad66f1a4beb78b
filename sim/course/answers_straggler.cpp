// Homework 1.5C: one GPU whose host sleeps in every step.
#include "sim/course/exercises.hpp"

#include <algorithm>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

struct StragglerPair {
  Series series;
  const ScenarioRow *plain = nullptr, *straggling = nullptr;

  double more_ms() const { return step_ms(series, *straggling) - step_ms(series, *plain); }
  const Straggler& straggler() const { return *straggling->spec.straggler; }
};

std::vector<StragglerPair> straggler_pairs(const Tables& tables) {
  std::vector<StragglerPair> pairs;
  for (const Series& series : series_over(tables, {"straggler"})) {
    const ScenarioRow* plain = find_row_of(series, [](const ScenarioRow& row) { return !row.spec.straggler; });
    const ScenarioRow* straggling =
        find_row_of(series, [](const ScenarioRow& row) { return row.spec.straggler && row.spec.straggler->ms > 0; });
    if (plain && straggling) pairs.push_back({series, plain, straggling});
  }
  return pairs;
}

std::string place_of(const StragglerPair& pair) {
  return work_text(pair.plain->spec) + " on " + gpus_of(*pair.plain) + ", " + source_of(pair.series);
}

/// From its kernel's begin to its end, the wait for the other GPUs inside; 0: there is none.
std::int64_t first_all_reduce_ns(const EvaluatedRun& run, std::int64_t gpu) {
  const Span* first = nullptr;
  for (const Span& span : run.result.timeline.spans) {
    if (span.worker != gpu || span.kind != TaskKind::all_reduce) continue;
    if (!first || span.start_ns < first->start_ns) first = &span;
  }
  return first ? first->end_ns - first->start_ns : 0;
}

/// ", 21.65 ms instead of 1.50 ms at most, in a recorded step", of the GPU whose first all-reduce grows most.
std::string longest_wait(const StragglerPair& pair) {
  const EvaluatedRun &with = run_of(pair.series, *pair.straggling), &without = run_of(pair.series, *pair.plain);
  std::int64_t longest = 0, before = 0;
  for (std::int64_t g = 0; g < std::ssize(with.metrics.gpus); ++g) {
    if (g == pair.straggler().rank) continue;
    const std::int64_t own = first_all_reduce_ns(with, g), own_before = first_all_reduce_ns(without, g);
    if (own - own_before <= longest - before) continue;
    longest = own;
    before = own_before;
  }
  if (longest == 0) return "";
  return ", which takes up to " + ms_of(longest) + " instead of " + ms_of(before) + " (in a " +
         step_of_spans(pair.series.side) + ")";
}

}  // namespace

std::string hw1_5c_experiment(const Tables& tables) {
  std::string text;
  for (const StragglerPair& pair : straggler_pairs(tables))
    text += (text.empty() ? "" : " ") + place_of(pair) + ": " + ms(step_ms(pair.series, *pair.straggling)) +
            " a step instead of " + ms(step_ms(pair.series, *pair.plain)) + ".";
  return text;
}

std::string hw1_5c_what_happens(const Tables& tables) {
  std::vector<std::string> items;
  for (const StragglerPair& pair : straggler_pairs(tables))
    items.push_back(ms(pair.more_ms()) + ", " + whole_percent(pair.more_ms() / pair.straggler().ms) +
                    " of the sleep (" + place_of(pair) + ")");
  if (items.empty()) return "";
  return "It grows on every GPU, not only on the one that sleeps: by " + listed(items) + ".";
}

std::string hw1_5c_synchronisation(const Tables& tables) {
  const std::vector<StragglerPair> pairs = straggler_pairs(tables);
  if (pairs.empty()) return "";
  const StragglerPair& pair = pairs.back();
  const auto gpus = static_cast<double>(pair.plain->spec.gpus);
  return "Synchronous training is as fast as its slowest GPU: the others wait in their first all-reduce" +
         longest_wait(pair) + ". So one sleep of " + ms(pair.straggler().ms) + " costs " +
         std::to_string(pair.plain->spec.gpus) + " x " + ms(pair.more_ms()) + " of GPU time in a step, " +
         fixed(gpus * pair.more_ms() / pair.straggler().ms, 1) + " times as much (" + place_of(pair) + ").";
}

}  // namespace pdl
