// Homework 1.1: a benchmark that can be repeated.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// A measured run of whose steps all times are kept, where there is one; else one whose warm-up is known.
struct Benchmark {
  const ScenarioTable* table = nullptr;
  const ScenarioRow* row = nullptr;
  MeasuredFacts facts;
};

bool is_larger(const ScenarioRow& row, const ScenarioRow& other) {
  const auto size = [](const RunSpec& spec) { return std::make_pair(spec.depth * spec.dim, spec.gpus); };
  return size(row.spec) > size(other.spec);
}

/// Of the largest model, on most GPUs.
Benchmark benchmark_of(const Tables& tables) {
  Benchmark best;
  for (const ScenarioTable& table : tables) {
    for (const ScenarioRow& row : table.rows) {
      if (!row.measured) continue;
      MeasuredFacts facts = measured_facts(row.measured->result);
      if (facts.warmup_ms.empty()) continue;
      const bool listed = !facts.steps_ms.empty(), best_listed = !best.facts.steps_ms.empty();
      if (best.row && (best_listed && !listed)) continue;
      if (best.row && listed == best_listed && !is_larger(row, *best.row)) continue;
      best = {&table, &row, std::move(facts)};
    }
  }
  return best;
}

std::string place_of(const Benchmark& benchmark) {
  return work_text(benchmark.row->spec) + " on " + gpus_of(*benchmark.row) + ", " +
         source_of({benchmark.table, {benchmark.row}, Side::measured});
}

std::string list_of_times(const std::vector<double>& times_ms, int digits) {
  std::string text;
  for (const double time_ms : times_ms) text += (text.empty() ? "" : ", ") + fixed(time_ms, digits);
  return text;
}

double mean_of(std::vector<double> values, const std::vector<double>& more) {
  values.insert(values.end(), more.begin(), more.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// "the losses of all 40 steps, warm-up and recorded ones included, are equal to the last digit", "the first loss is
/// 1.000129 instead of 1.001367".
std::string losses_against(const std::vector<double>& losses, const std::vector<double>& other) {
  const bool equal = losses == other;
  if (equal)
    return "the losses of all " + std::to_string(losses.size()) +
           " steps, warm-up and recorded ones included, are equal to the last digit";
  return "the first loss is " + fixed(other.front(), 6) + " instead of " + fixed(losses.front(), 6);
}

/// Of runs that differ in seed and repetition alone, in which the losses are known.
struct SeededRuns {
  const ScenarioRow *first = nullptr, *again = nullptr, *other_seed = nullptr;
};
SeededRuns seeded_runs(const Series& series) {
  SeededRuns runs;
  for (const ScenarioRow* row : series.rows) {
    if (series.side != Side::measured || measured_facts(row->measured->result).losses.empty()) continue;
    if (!runs.first) {
      runs.first = row;
    } else if (row->spec.seed != runs.first->spec.seed) {
      runs.other_seed = row;
    } else {
      runs.again = row;
    }
  }
  return runs;
}

std::string seeds_text(const Series& series, const SeededRuns& runs) {
  const auto losses = [](const ScenarioRow& row) { return measured_facts(row.measured->result).losses; };
  std::string text = "Because only then are two runs the same work: ";
  if (runs.again) {
    text += "twice with seed " + std::to_string(runs.first->spec.seed) + ", " +
            losses_against(losses(*runs.first), losses(*runs.again)) + ", and a step takes " +
            ms(step_ms(series, *runs.first)) + " and " + ms(step_ms(series, *runs.again)) + "; ";
  }
  if (runs.other_seed) {
    text += "with seed " + std::to_string(runs.other_seed->spec.seed) + " " +
            losses_against(losses(*runs.first), losses(*runs.other_seed)) + " (" +
            ms(step_ms(series, *runs.other_seed)) + "), ";
  }
  return text + source_of(series) + ", " + work_text(runs.first->spec) + " on " + gpus_of(*runs.first) +
         ". What is left of a difference in time is noise.";
}

}  // namespace

std::string hw1_1_experiment(const Tables& tables) {
  const Benchmark benchmark = benchmark_of(tables);
  if (!benchmark.row)
    return "None of these rows was measured: a prediction is 1 step as it is after the warm-up. pdl-run writes the "
           "time of each step (default: 30 after 5).";
  const StepTime& time = benchmark.row->measured->result.step_time;
  const auto warmup = count_of(std::ssize(benchmark.facts.warmup_ms), "warm-up step");
  if (benchmark.facts.steps_ms.empty())
    return place_of(benchmark) + ": median " + ms(time.median_ms) + " of " + count_of(time.n.value_or(0), "step") +
           " after " + warmup + ".";
  return place_of(benchmark) + ", the " + count_of(std::ssize(benchmark.facts.steps_ms), "step") + " after " + warmup +
         ", in ms: " + list_of_times(benchmark.facts.steps_ms, 2) + "; median " + fixed(time.median_ms, 2) + ".";
}

std::string hw1_1_why_warm_up(const Tables& tables) {
  const Benchmark benchmark = benchmark_of(tables);
  const std::string why = "the CUDA context, the handles and workspaces of cuBLAS and NCCL, the allocator's blocks";
  if (!benchmark.row)
    return "The first step creates what later ones use again, " + why + "; of these rows 0 were measured.";
  const double median_ms = benchmark.row->measured->result.step_time.median_ms;
  const double first_ms = benchmark.facts.warmup_ms.front();
  std::string text = "The first step took " + ms(first_ms) + ", " + fixed(first_ms / median_ms, 0) +
                     " times as long as the median of " + ms(median_ms) + " (" + place_of(benchmark) +
                     "): it creates what later ones use again, " + why + ".";
  if (benchmark.facts.steps_ms.empty()) return text;
  return text + " A mean that kept the warm-up would be " +
         ms(mean_of(benchmark.facts.warmup_ms, benchmark.facts.steps_ms)) + ".";
}

std::string hw1_1_why_seeds(const Tables& tables) {
  for (const Series& series : series_over(tables, {"seed", "repeat"})) {
    const SeededRuns runs = seeded_runs(series);
    if (runs.again || runs.other_seed) return seeds_text(series, runs);
  }
  return "Because only with one seed do two runs train the same parameters on the same data, so that losses can be "
         "compared digit by digit and times are those of the same work; these rows have no 2 measured runs to show it.";
}

}  // namespace pdl
