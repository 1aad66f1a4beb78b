// Homework 4.1: the options side by side, the bubble, and 1F1B with a worker a GPU against GPipe.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cstdint>

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
  return ", and the fullest GPU needs " + memory_like(few, many) + " instead of " + memory_like(many, many) +
         (is_same(static_cast<double>(few), static_cast<double>(many)) ? ", no difference here" : "");
}

std::string equal_microbatches_text(const Versus& own) {
  const double gpipe_ms = step_ms(own.series, *own.gpipe), ms_of_1f1b = step_ms(own.series, *own.one_f_one_b);
  const std::string at = "at equal micro-batches ";
  if (is_same(ms_of_1f1b, gpipe_ms)) return at + "that makes " + no_difference_text({own.gpipe, own.one_f_one_b});
  return at + "it " + against(ms_of_1f1b, gpipe_ms) + " GPipe here" +
         (is_host_bound(*own.gpipe) || is_host_bound(*own.one_f_one_b) ? ", where the steps are host-bound" : "");
}

/// 1F1B is faster where a GPU's memory holds its activations and not those of GPipe.
std::string when_faster_text(const Versus& own) {
  const std::string text =
      "It is faster where memory keeps GPipe from as many or as large micro-batches, or makes it "
      "recompute";
  std::int64_t least = INT64_MAX;
  for (const ScenarioRow* row : rows_of_schedule(own.series, "gpipe"))
    least = std::min(least, largest_memory(run_of(own.series, *row)));
  const std::int64_t needed = largest_memory(run_of(own.series, *own.one_f_one_b));
  if (needed == 0 || is_same(static_cast<double>(needed), static_cast<double>(least)) || needed > least)
    return text + ".";
  return text + ": " + memory_like(needed, least) + " a GPU are enough for 1F1B with " +
         microbatches_text(*own.one_f_one_b) + ", and GPipe needs " + memory_like(least, least) +
         " at least, with any number of them here.";
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
  const GpuMetrics& first = run_of(own->series, row).metrics.gpus.front();
  return "The time in which GPUs of a pipeline have no forward or backward to run: at the start, until the first "
         "micro-batch arrives, in the middle on all but the last GPU, until the first gradient comes back, and at the "
         "end, while the last ones go back; the GPUs are paid for and do nothing. "
         "With P = " +
         std::to_string(row.spec.gpus) + " GPUs and M = " + std::to_string(microbatches_of(row)) +
         " micro-batches, GPipe's is " + bubble_text(own->series, row) + ", and " + rest_of_bubble({&row}) +
         "; GPU 0 is idle " + ms_of(first.idle_between_ns) + " between its tasks and " + ms_of(first.idle_after_ns) +
         " after them, of " + timeline_step_text(run_of(own->series, row)) + " (" + pipeline_place(own->series) + ").";
}

std::string hw4_1_why_1f1b(const Tables& tables) {
  const auto own = gpipe_and_1f1b(tables);
  if (!own) return "";
  const auto bubble = [&](const ScenarioRow* row) {
    return percent(run_of(own->series, *row).metrics.bubble_fraction);
  };
  const std::string times = "with " + microbatches_text(*own->gpipe) + " 1F1B takes " +
                            ms(step_ms(own->series, *own->one_f_one_b)) + " and GPipe " +
                            ms(step_ms(own->series, *own->gpipe)) + ", with bubbles of " + bubble(own->one_f_one_b) +
                            " and " + bubble(own->gpipe);
  return "Because its forwards and backwards overlap; " + equal_microbatches_text(*own) + ": " + times +
         ". The gain is memory: the GPUs keep at most " + live_by_gpu(own->one_f_one_b->predicted.result) +
         " micro-batches instead of " + live_by_gpu(own->gpipe->predicted.result) + memory_text(*own) + " (" +
         pipeline_place(own->series) + "). " + when_faster_text(*own);
}

}  // namespace pdl
