// Practical 9: options A and B, all three by their number of micro-batches, and the final questions.
#include "sim/course/exercises.hpp"

#include <algorithm>

#include "sim/course/answer_words.hpp"
#include "sim/course/pipeline_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/concurrency.hpp"

namespace pdl {
namespace {

const std::vector<std::string> kA = {"naive"}, kAB = {"naive", "gpipe"}, kABC = {"naive", "gpipe", "option-c"};

/// A pipeline to quote, and of each named schedule its row with as many micro-batches.
struct Quoted {
  Series series;
  Rows rows;  // one a schedule

  const EvaluatedRun& run(std::size_t schedule) const { return run_of(series, *rows[schedule]); }
  double ms_of_step(std::size_t schedule) const { return step_ms(series, *rows[schedule]); }
  std::string place() const { return pipeline_place(series) + ", " + microbatches_text(*rows.front()); }

  // Of the first two schedules.
  bool is_same_parallelism() const {
    return is_same(concurrency(run(1).result).average, concurrency(run(0).result).average);
  }
  std::string no_difference() const { return "It makes " + no_difference_text(rows); }
};

std::optional<Quoted> quoted(const Tables& tables, const std::vector<std::string>& schedules) {
  for (const Series& series : pipelines(tables, schedules)) {
    const std::int64_t count = microbatches_to_quote(series, schedules);
    if (count == 0) continue;
    Rows rows;
    for (const std::string& schedule : schedules) rows.push_back(row_with(series, schedule, count));
    return Quoted{series, rows};
  }
  return std::nullopt;
}

std::string idle_of(const EvaluatedRun& run, std::size_t gpu) {
  const GpuMetrics& metrics = run.metrics.gpus[gpu];
  return "GPU " + std::to_string(gpu) + " is idle " + ms_of(metrics.idle_before_ns) + " before its first task, " +
         ms_of(metrics.idle_between_ns) + " between its tasks and " + ms_of(metrics.idle_after_ns) +
         " after its last one";
}

/// Of one schedule: "2, 4 and 8 micro-batches: ... ms (8 layers of ...)." a pipeline.
std::string times_of_pipelines(const Tables& tables, const std::vector<std::string>& schedules) {
  std::string text;
  for (const Series& series : pipelines(tables, schedules)) {
    std::vector<std::string> items;
    for (const std::string& schedule : schedules)
      items.push_back((schedules.size() > 1 ? option_name(schedule) + " with " : "") +
                      times_text(series, rows_of_schedule(series, schedule)));
    for (const std::string& item : items) text += (&item == &items.front() ? "" : "; ") + item;
    text += " (" + pipeline_place(series) + "). ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

/// "option B (GPipe) with 8 takes 1.02 times as long as with 4": the first rise of a step time, over all pipelines.
std::string counter_example(const Series& series, const std::string& schedule) {
  const Rows rows = rows_of_schedule(series, schedule);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double here_ms = step_ms(series, *rows[i]), before_ms = step_ms(series, *rows[i - 1]);
    if (here_ms > before_ms * (1 + kTellable))
      return option_name(schedule) + " takes " + ms(here_ms) + " with " + microbatches_text(*rows[i]) + " and " +
             ms(before_ms) + " with " + std::to_string(microbatches_of(*rows[i - 1]));
  }
  return "";
}

/// With the most micro-batches against the fewest: above 1 it gets faster.
double gain_of(const Series& series, const std::string& schedule) {
  const Rows rows = rows_of_schedule(series, schedule);
  return step_ms(series, *rows.front()) / step_ms(series, *rows.back());
}

/// "with 8 micro-batches option B (GPipe) is 1.12 times as fast as with 2"
std::string gain_text(const Series& series, const std::string& schedule) {
  const Rows rows = rows_of_schedule(series, schedule);
  return option_name(schedule) + " with " + microbatches_text(*rows.back()) + " " +
         against(step_ms(series, *rows.back()), step_ms(series, *rows.front())) + " with " +
         std::to_string(microbatches_of(*rows.front()));
}

/// Of GPipe with the most micro-batches against the fewest: shrinks, grows, or neither.
enum class BubbleChange { shrinks, grows, none };
BubbleChange bubble_change(const Series& series, const Rows& rows) {
  const double few = run_of(series, *rows.front()).metrics.bubble_fraction;
  const double many = run_of(series, *rows.back()).metrics.bubble_fraction;
  if (is_same(many, few)) return BubbleChange::none;
  return many < few ? BubbleChange::shrinks : BubbleChange::grows;
}

/// "Option B (GPipe) benefits most", "None benefits": of the options with the largest gain first.
std::string most_gaining(const Series& series, const std::vector<std::string>& options) {
  const double best = gain_of(series, options.front());
  if (best < 1 + kNoDifference) return "None benefits";
  std::vector<std::string> names;
  for (const std::string& option : options) {
    if (is_same(gain_of(series, option), best)) names.push_back(option_name(option));
  }
  return listed(names) + (names.size() == 1 ? " benefits most" : " benefit alike");
}

/// Of the fullest GPU: the plan's, which predicted and measured runs share.
std::int64_t activations_of(const ScenarioRow& row) {
  std::int64_t most = 0;
  for (const LiveActivations& live : row.predicted.result.live) most = std::max(most, live.bytes);
  return most;
}

/// At a fixed batch: "320.00 MiB with 2, 4 and 8 micro-batches, and 1F1B min(P, M) of M parts, 320.00, 320.00 and
/// 160.00 MiB"
std::string activations_text(const Rows& rows) {
  std::vector<std::string> counts, all, parts;
  for (const ScenarioRow* row : rows) {
    const std::int64_t count = microbatches_of(*row), bytes = activations_of(*row);
    counts.push_back(std::to_string(count));
    if (all.empty() || all.back() != mib(bytes)) all.push_back(mib(bytes));
    parts.push_back(mib(bytes * std::min(row->spec.gpus, count) / count));
  }
  return listed(all) + " MiB with " + listed(counts) + " micro-batches, where 1F1B keeps at most P of the M parts, " +
         listed(parts) + " MiB";
}

}  // namespace

std::string p9_1_experiment(const Tables& tables) {
  const auto own = quoted(tables, kA);
  if (!own) return "";
  return times_of_pipelines(tables, kA) + " Each GPU computes " + busy_range(own->run(0)) + " of the step (" +
         own->place() + ").";
}

std::string p9_1_in_parallel(const Tables& tables) {
  const auto own = quoted(tables, kA);
  if (!own) return "";
  const bool parallel = concurrency(own->run(0).result).most > 1;
  return std::string(parallel ? "At times: " : "No: ") + at_once_text(own->run(0)) + " (" + own->place() +
         "), since the order is " + order_text(own->run(0), 6) + " and B0 ends on GPU 0, where F1 starts.";
}

std::string p9_1_where_idle(const Tables& tables) {
  const auto own = quoted(tables, kA);
  if (!own) return "";
  const EvaluatedRun& run = own->run(0);
  return "Between the tasks everywhere, and on later GPUs before the first one and after the last one: " +
         idle_of(run, 0) + "; " + idle_of(run, run.metrics.gpus.size() - 1) + " (" + own->place() + ").";
}

std::string p9_2_experiment(const Tables& tables) {
  const auto own = quoted(tables, kAB);
  if (!own) return "";
  return times_of_pipelines(tables, kAB) + " " + losses_text(own->series, own->rows);
}

std::string p9_2_what_changed(const Tables& tables) {
  const auto own = quoted(tables, kAB);
  if (!own) return "";
  return "Option A runs " + order_text(own->run(0)) + ", Option B " + order_text(own->run(1)) +
         ": all forwards, then all backwards. " + (own->is_same_parallelism() ? own->no_difference() + ": " : "So ") +
         at_once_text(own->run(1)) + ", with Option A " + fixed(concurrency(own->run(0).result).average, 2) + " (" +
         own->place() + ").";
}

std::string p9_2_why_separated(const Tables& tables) {
  const auto own = quoted(tables, kAB);
  if (!own) return "";
  const auto wait = [&](std::size_t schedule) {
    return ms_of(own->run(schedule).metrics.gpus.front().idle_between_ns);
  };
  const std::string because = "Because a forward then waits for no backward, which has to come back through all GPUs";
  const std::string waits = "GPU 0 waits " + wait(1) + " between its tasks, with Option A " + wait(0);
  if (is_same(own->ms_of_step(1), own->ms_of_step(0)))
    return because + ". " + own->no_difference() + ": " + waits + ", and a step takes " + ms(own->ms_of_step(1)) +
           ", with Option A " + ms(own->ms_of_step(0)) + " (" + own->place() + ").";
  return because + ": " + waits + ", and the step " + against(own->ms_of_step(1), own->ms_of_step(0)) +
         " Option A's (" + own->place() + ").";
}

std::string p9_2_are_bubbles_removed(const Tables& tables) {
  const auto series = pipeline_to_quote(tables, {"gpipe"});
  if (!series) return "";
  const Rows rows = rows_of_schedule(*series, "gpipe");
  std::vector<std::string> items;
  for (const ScenarioRow* row : rows)
    items.push_back(percent(run_of(*series, *row).metrics.bubble_fraction) + " with M = " +
                    std::to_string(microbatches_of(*row)) + " (closed form " + percent(ideal_bubble(*row)) + ")");
  const BubbleChange change = bubble_change(*series, rows);
  return std::string("No") +
         (change == BubbleChange::shrinks ? ", they shrink with more micro-batches: "
          : change == BubbleChange::grows ? ", and here they grow with more micro-batches: "
          : rows.size() > 1               ? ", and more micro-batches make " + no_difference_text(rows) + ": "
                                          : ": ") +
         listed(items) + " (" + pipeline_place(*series) +
         "). The closed form is (P - 1) / (M + P - 1), the fill and the drain; " + rest_of_bubble(rows) + ".";
}

std::string p9_4_experiment(const Tables& tables) {
  return times_of_pipelines(tables, kABC);
}

std::string p9_4_do_more_help(const Tables& tables) {
  std::vector<std::string> examples;
  bool shrinks = true;
  for (const Series& series : pipelines(tables, kABC)) {
    for (const char* schedule : {"gpipe", "option-c", "naive"}) {
      const std::string example = counter_example(series, schedule);
      if (example.empty()) continue;
      examples.push_back(example + " (" + pipeline_place(series) + ")");
      shrinks = shrinks && bubble_change(series, rows_of_schedule(series, "gpipe")) == BubbleChange::shrinks;
    }
  }
  if (examples.empty()) return "In these rows yes.";
  return "No: " + examples.front() +
         ". Smaller micro-batches use a GPU less well and each costs the host and the transfers its time" +
         (shrinks ? "; only the bubble of Option B shrinks." : ".");
}

std::string p9_4_which_benefits(const Tables& tables) {
  std::string text, said;
  for (const Series& series : pipelines(tables, kABC)) {
    if (rows_of_schedule(series, "gpipe").size() < 2) continue;
    std::vector<std::string> options = kABC;
    std::stable_sort(options.begin(), options.end(),
                     [&](auto& a, auto& b) { return gain_of(series, a) > gain_of(series, b); });
    const std::string own = most_gaining(series, options);
    text += (text.empty() ? "" : " ") + (own == said ? "" : own + ": ") + gain_text(series, options[0]) + ", " +
            gain_text(series, options[1]) + " and " + gain_text(series, options[2]) + " (" + pipeline_place(series) +
            ").";
    said = own;
  }
  return text;
}

std::string p9_final_why_no_pipeline(const Tables& tables) {
  const auto own = quoted(tables, kA);
  if (!own) return "";
  return "Because micro-batch i + 1 enters GPU 0 only when i has gone through all GPUs and back: " +
         at_once_text(own->run(0)) + ", and the bubble is " + percent(own->run(0).metrics.bubble_fraction) +
         "; of GPUs that only take turns it is 1 - 1 / P = " +
         percent(1 - 1 / static_cast<double>(own->rows.front()->spec.gpus)) + " (" + own->place() + ").";
}

std::string p9_final_limitation(const Tables& tables) {
  const auto series = pipeline_to_quote(tables, {"gpipe"});
  if (!series) return "";
  const Rows rows = rows_of_schedule(*series, "gpipe");
  return "Memory: at a fixed batch each GPU keeps all of its activations, " + activations_text(rows) +
         "; at a fixed micro-batch size GPipe's grow with M and those of 1F1B do not. And with " +
         microbatches_text(*rows.back()) + " the bubble is still " + bubble_text(*series, *rows.back()) + " (" +
         pipeline_place(*series) + ").";
}

std::string p9_final_what_reduces_bubbles(const Tables& tables) {
  const auto series = pipeline_to_quote(tables, {"gpipe"});
  if (!series) return "";
  const Rows rows = rows_of_schedule(*series, "gpipe");
  const auto bubble = [&](const ScenarioRow* row) {
    return percent(run_of(*series, *row).metrics.bubble_fraction) + " with " + std::to_string(microbatches_of(*row));
  };
  const BubbleChange change = bubble_change(*series, rows);
  return "At equal micro-batches it does not: 1F1B and GPipe both have (P - 1) / (M + P - 1), which more micro-batches "
         "reduce (Option B: " +
         bubble(rows.front()) + ", " + bubble(rows.back()) +
         (change == BubbleChange::shrinks ? ""
          : change == BubbleChange::grows ? ", here the bubble grows"
                                          : ", " + no_difference_text(rows)) +
         "; " + pipeline_place(*series) +
         "). At a fixed batch neither needs more memory for them; at a fixed micro-batch size GPipe does, while 1F1B "
         "keeps at most P of them, so it can afford more. Beyond that, several stages a GPU (interleaved 1F1B) and "
         "split "
         "backwards (zero-bubble) do.";
}

std::string p9_final_which_for_large(const Tables& tables) {
  const auto series = pipeline_to_quote(tables, kABC);
  if (!series) return "";
  std::vector<std::string> items;
  for (const std::string& schedule : kABC)
    items.push_back(option_name(schedule) + " " + ms(step_ms(*series, *rows_of_schedule(*series, schedule).back())));
  return "1F1B with a worker a GPU: the time of GPipe with the activations of at most P micro-batches. Of the three "
         "that one thread issues, with " +
         microbatches_text(*rows_of_schedule(*series, "gpipe").back()) + ": " + listed(items) + " (" +
         pipeline_place(*series) + ").";
}

}  // namespace pdl
