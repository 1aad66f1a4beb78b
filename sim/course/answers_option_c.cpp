// Homework 4.2 to 4.4 and practical 9.3 and 9.5: option C as the sheets write it, issued by one thread.
#include "sim/course/exercises.hpp"

#include <algorithm>

#include "sim/course/answer_words.hpp"
#include "sim/course/pipeline_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/concurrency.hpp"

namespace pdl {
namespace {

/// Rows with as many micro-batches of one pipeline: of the options that the table has, C always.
struct Compared {
  Series series;
  const ScenarioRow *a = nullptr, *b = nullptr, *c = nullptr;

  const EvaluatedRun& run(const ScenarioRow* row) const { return run_of(series, *row); }
  double step(const ScenarioRow* row) const { return step_ms(series, *row); }
  std::string time(const ScenarioRow* row) const { return ms(step(row)); }
  /// Of another option: that its steps are as long as those of C.
  std::string note(const ScenarioRow* other) const {
    return is_same(step(other), step(c)) ? ", " + no_difference_text({other, c}) : "";
  }
  std::string place() const { return pipeline_place(series) + ", " + microbatches_text(*c); }
};

/// With `others` A and B are there too.
std::optional<Compared> compared(const Tables& tables, bool others = true) {
  const std::vector<std::string> schedules =
      others ? std::vector<std::string>{"naive", "gpipe", "option-c"} : std::vector<std::string>{"option-c"};
  for (const Series& series : pipelines(tables, schedules)) {
    const std::int64_t count = microbatches_to_quote(series, schedules);
    if (count > 0)
      return Compared{series, row_with(series, "naive", count), row_with(series, "gpipe", count),
                      row_with(series, "option-c", count)};
  }
  return std::nullopt;
}

std::string average_at_once(const EvaluatedRun& run) {
  return fixed(concurrency(run.result).average, 2) + " of " + count_of(run.result.spec.gpus, "GPU");
}

/// GPU 0 is where the next micro-batch begins.
std::string wait_of_first_gpu(const EvaluatedRun& run) {
  return ms_of(run.metrics.gpus.front().idle_between_ns);
}

/// What scenarios/python/p9_option_c.py --without-condition does; tests/course_python.py runs it.
constexpr const char* kWithoutCondition =
    "It fails: after F0 B0 F1 with \"RuntimeError: Trying to backward through the graph a second time\" "
    "(scenarios/python/p9_option_c.py --without-condition), as at i = 0 losses[i - 1] is losses[-1], the last element "
    "of the list, which is the loss of micro-batch 0 itself: its backward runs at once, and again at i = 1. With "
    "--retain-graph it runs F0 B0 F1 B0 F2 B1 F3 B2 B3, and the gradient is wrong by 41 % of its norm, as "
    "micro-batch 0 counts twice (run on a CPU).";

std::string why_delayed(const Compared& own) {
  return "So that the forward of i is issued before the backward of i - 1, and " +
         count_of(most_live(own.c->predicted.result), "micro-batch", "es") +
         " can be in flight: with i it would be Option A, whose step " + against(own.step(own.a), own.step(own.c)) +
         " Option C's" + own.note(own.a) + ": " + own.time(own.a) + " and " + own.time(own.c) + " (" + own.place() +
         ").";
}

std::string overlap_and_efficiency(const Compared& own) {
  return std::string(first_overlap(own.run(own.c)) ? "A backward runs beside a forward only briefly"
                                                   : "No backward runs beside a forward") +
         ": one thread gives every GPU the same order, in which F_i comes after B_(i-2) has been through all GPUs and "
         "back. " +
         average_at_once(own.run(own.c)) + " compute on average and a step takes " + own.time(own.c) + ", with GPipe " +
         fixed(concurrency(own.run(own.b).result).average, 2) + " and " + own.time(own.b) + own.note(own.b) + " (" +
         own.place() + ").";
}

}  // namespace

std::string hw4_2_code(const Tables& tables) {
  const auto own = compared(tables, false);
  if (!own) return "";
  return "scenarios/python/p9_option_c.py: the target goes to the GPU of the last layer, the forward runs and its loss "
         "is stored, if i > 0 the backward of i - 1 follows, and after the loop the last backward. Order with " +
         microbatches_text(*own->c) + ": " + order_text(own->run(own->c)) + " (" + source_of(own->series) + ").";
}

std::string hw4_3_why_delayed(const Tables& tables) {
  const auto own = compared(tables);
  return own ? why_delayed(*own) : "";
}

std::string hw4_3_without_condition(const Tables&) {
  return kWithoutCondition;
}

std::string hw4_3_overlap(const Tables& tables) {
  const auto own = compared(tables);
  return own ? overlap_and_efficiency(*own) : "";
}

std::string hw4_4_experiment(const Tables& tables) {
  const auto own = compared(tables, false);
  if (!own) return "";
  std::vector<std::string> steps;
  for (const std::string& operation : own->run(own->c).metrics.gpus.front().ops)
    steps.push_back(std::to_string(steps.size() + 1) + ". " +
                    (operation.front() == 'F' ? "forward of " : "backward of ") + operation.substr(1));
  return listed(steps) + " (" + own->place() + ").";
}

std::string hw4_4_sequence(const Tables& tables) {
  const auto own = compared(tables, false);
  if (!own) return "";
  const auto& gpus = own->run(own->c).metrics.gpus;
  const bool same =
      std::all_of(gpus.begin(), gpus.end(), [&](const GpuMetrics& gpu) { return gpu.ops == gpus[0].ops; });
  return order_text(own->run(own->c)) + (same ? ", on every GPU" : ", on GPU 0") + " (" + own->place() +
         "); scenarios/python/p9_option_c.py prints the same with 4.";
}

std::string hw4_4_first_overlap(const Tables& tables) {
  const auto own = compared(tables, false);
  if (!own) return "";
  const auto first = first_overlap(own->run(own->c));
  if (first)
    return "After " + ms_of(first->at_ns) + " of " + timeline_step_text(own->run(own->c)) + ": " + first->backward +
           " beside " + first->forward + " (" + own->place() + ").";
  return "Never (" + own->place() + "): B0 begins after " + ms_of(first_backward_ns(own->run(own->c))) + " of " +
         timeline_step_text(own->run(own->c)) +
         ", and F2 is behind it in the queue of every GPU. In 1F1B with a worker a GPU B0 runs beside F1, which the "
         "next GPU runs.";
}

std::string hw4_4_why_more_efficient(const Tables& tables) {
  const auto own = compared(tables);
  if (!own) return "";
  const bool faster = own->step(own->c) < own->step(own->b) && own->note(own->b).empty();
  return std::string(faster ? "Here it is" : "Issued by one thread it is not") + ": a step of Option C " +
         against(own->step(own->c), own->step(own->b)) + " GPipe's" + own->note(own->b) + " (" + own->time(own->c) +
         " against " + own->time(own->b) + "; " + own->place() +
         "). The premise is that the last GPU runs a backward while the first ones run later forwards, which needs a "
         "worker a GPU.";
}

std::string p9_3_experiment(const Tables& tables) {
  std::string text;
  for (const Series& series : pipelines(tables, {"naive", "gpipe", "option-c"})) {
    for (const char* schedule : {"option-c", "naive", "gpipe"})
      text += option_name(schedule) + " with " + times_text(series, rows_of_schedule(series, schedule)) +
              (std::string_view(schedule) == "gpipe" ? " (" + pipeline_place(series) + "). " : "; ");
  }
  const auto own = compared(tables);
  return own ? text + losses_text(own->series, {own->a, own->b, own->c}) : "";
}

std::string p9_3_when_backward_starts(const Tables& tables) {
  const auto own = compared(tables);
  if (!own) return "";
  const auto begins = [&](const ScenarioRow* row) {
    return ms_of(first_backward_ns(own->run(row))) + " of " + timeline_step_text(own->run(row));
  };
  return "After the second forward, F1: B0 begins after " + begins(own->c) + ", in GPipe after all forwards, " +
         begins(own->b) + " (" + own->place() + ").";
}

std::string p9_3_what_differs(const Tables& tables) {
  const auto own = compared(tables);
  if (!own) return "";
  return "The order, " + order_text(own->run(own->c)) + " instead of " + order_text(own->run(own->b)) +
         ", and so the activations kept at once: " + std::to_string(most_live(own->c->predicted.result)) +
         " instead of " + count_of(most_live(own->b->predicted.result), "micro-batch", "es") + " (" + own->place() +
         ").";
}

std::string p9_3_why_efficient(const Tables& tables) {
  const auto own = compared(tables);
  if (!own) return "";
  const std::string here = wait_of_first_gpu(own->run(own->c)), in_gpipe = wait_of_first_gpu(own->run(own->b));
  const bool slower = own->step(own->c) > own->step(own->b) && own->note(own->b).empty();
  const std::string note = own->note(own->a).empty() ? "" : own->note(own->b);
  return "A step of Option C " + against(own->step(own->c), own->step(own->b)) + " GPipe's and " +
         against(own->step(own->c), own->step(own->a)) + " Option A's" + note + ": GPU 0 waits " + here +
         " between its tasks, with GPipe " + in_gpipe +
         (slower ? ", as F_i waits there for B_(i-2) to come back" : "") + " (" + own->place() + ").";
}

std::string p9_5_why_delayed(const Tables& tables) {
  return hw4_3_why_delayed(tables);
}
std::string p9_5_without_condition(const Tables& tables) {
  return hw4_3_without_condition(tables);
}
std::string p9_5_overlap(const Tables& tables) {
  return hw4_3_overlap(tables);
}

}  // namespace pdl
