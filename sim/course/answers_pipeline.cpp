// Homework 4.1: the options side by side, the bubble, and 1F1B with a worker a GPU against GPipe.
#include "sim/course/exercises.hpp"

#include <algorithm>

#include "sim/course/answer_words.hpp"
#include "sim/course/pipeline_words.hpp"
#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

constexpr std::size_t kOperationsShown = 8;  // of four micro-batches all

bool by_one_thread(const Series& series) {
  return series.rows.front()->spec.workers == Workers::one;
}

/// "4, 3, 2 and 1": micro-batches in flight, by GPU.
std::string live_by_gpu(const RunResult& run) {
  std::vector<std::string> counts;
  for (const LiveActivations& of_gpu : run.live) counts.push_back(std::to_string(of_gpu.count));
  return listed(counts);
}

/// With a worker a GPU, GPipe and 1F1B with as many micro-batches, at the most of them that differs in memory.
struct Versus {
  Series series;
  const ScenarioRow *gpipe = nullptr, *one_f_one_b = nullptr;
};

std::optional<Versus> gpipe_and_1f1b(const Tables& tables) {
  for (const Series& series : pipelines(tables, {"gpipe", "1f1b"})) {
    if (by_one_thread(series)) continue;
    const Rows rows = rows_of_schedule(series, "1f1b");
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      if (const ScenarioRow* other = row_with(series, "gpipe", microbatches_of(**row)))
        return Versus{series, other, *row};
    }
  }
  return std::nullopt;
}

std::string memory_text(const Versus& own) {
  const std::int64_t few = largest_memory(run_of(own.series, *own.one_f_one_b));
  const std::int64_t many = largest_memory(run_of(own.series, *own.gpipe));
  if (few == 0 || many == 0) return "";
  return ", and the fullest GPU needs " + memory_like(few, many) + " instead of " + memory_like(many, many);
}

}  // namespace

std::string hw4_1_options(const Tables& tables) {
  const std::vector<std::string> schedules = {"naive", "gpipe", "option-c"};
  for (const Series& series : pipelines(tables, schedules)) {
    const std::int64_t count = microbatches_to_quote(series, schedules);
    if (!by_one_thread(series) || count == 0) continue;
    std::string text;
    for (const std::string& schedule : schedules) {
      const ScenarioRow& row = *row_with(series, schedule, count);
      const EvaluatedRun& run = run_of(series, row);
      text += (text.empty() ? "" : "; ") + option_name(schedule) + " runs " + order_text(run, kOperationsShown) +
              " in " + ms(step_ms(series, row)) + ", computing " + busy_range(run) +
              " of the step on each GPU, efficiency " + percent(1 - run.metrics.bubble_fraction);
    }
    return text + " (" + pipeline_place(series) + ", " + microbatches_text(*row_with(series, "gpipe", count)) +
           "). Efficiency is 1 - the bubble. nvidia-smi's utilisation counts any kernel: with copies between GPUs it "
           "shows this compute share, with NCCL also the kernels that wait for another GPU.";
  }
  return "";
}

std::string hw4_1_bubble(const Tables& tables) {
  const auto own = gpipe_and_1f1b(tables);
  if (!own) return "";
  const ScenarioRow& row = *own->gpipe;
  return "The time in which GPUs of a pipeline have no forward or backward to run: at the start, until the first "
         "micro-batch arrives, and at the end, while the last one goes back; the GPUs are paid for and do nothing. "
         "With P = " +
         std::to_string(row.spec.gpus) + " GPUs and M = " + std::to_string(microbatches_of(row)) +
         " micro-batches, GPipe's is " + bubble_text(own->series, row) + " (" + pipeline_place(own->series) + ").";
}

std::string hw4_1_why_1f1b(const Tables& tables) {
  const auto own = gpipe_and_1f1b(tables);
  if (!own) return "";
  const auto bubble = [&](const ScenarioRow* row) {
    return percent(run_of(own->series, *row).metrics.bubble_fraction);
  };
  return "Because its forwards and backwards overlap; at equal micro-batches that saves no time: with " +
         microbatches_text(*own->gpipe) + " 1F1B takes " + ms(step_ms(own->series, *own->one_f_one_b)) + " and GPipe " +
         ms(step_ms(own->series, *own->gpipe)) + ", with bubbles of " + bubble(own->one_f_one_b) + " and " +
         bubble(own->gpipe) + ". The gain is memory: the GPUs keep at most " +
         live_by_gpu(own->one_f_one_b->predicted.result) + " micro-batches instead of " +
         live_by_gpu(own->gpipe->predicted.result) + memory_text(*own) + " (" + pipeline_place(own->series) + ").";
}

}  // namespace pdl
