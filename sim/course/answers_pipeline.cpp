// Practical 9 and homework 4: pipelines and their schedules.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/concurrency.hpp"

namespace pdl {
namespace {

const ScenarioRow& fastest_of(const std::vector<const ScenarioRow*>& rows, Side side) {
  return **std::min_element(rows.begin(), rows.end(),
                            [&](auto* a, auto* b) { return step_ms(*a, side) < step_ms(*b, side); });
}

/// "2 micro-batches 60.10 ms, 4 micro-batches ..., ...; fastest with 8; with 8 the step takes ... than with 2."
std::string times_by_microbatches(const std::vector<const ScenarioRow*>& rows, Side side) {
  std::string text;
  for (const ScenarioRow* row : rows) {
    text += (text.empty() ? "" : ", ") + microbatches_text(*row) + " " + ms(step_ms(*row, side));
  }
  const ScenarioRow &first = *rows.front(), &last = *rows.back();
  if (rows.size() == 1) return text + ".";
  return text + "; fastest with " + std::to_string(microbatches_of(fastest_of(rows, side))) + "; with " +
         std::to_string(microbatches_of(last)) + " the step takes " +
         time_against(step_ms(last, side), step_ms(first, side)) + " than with " +
         std::to_string(microbatches_of(first)) + ".";
}

/// The same, opened by "8 layers of 64, batch 256 on 4 GPUs (measured): ".
std::string times_of_model(const std::vector<const ScenarioRow*>& rows, Side side) {
  return work_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + " (" + name(side) +
         "): " + times_by_microbatches(rows, side);
}

std::string order_of_first_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::string& operation : run.metrics.gpus.front().ops) text += (text.empty() ? "" : " ") + operation;
  return text;
}

/// Idle over all, equal stages, one a GPU, nothing but their work: GPipe and 1F1B.
double bubble_of_gpipe(const ScenarioRow& row) {
  const auto gpus = static_cast<double>(row.spec.gpus), slices = static_cast<double>(microbatches_of(row));
  return (gpus - 1) / (slices + gpus - 1);
}

/// Rows of one schedule and kind of workers.
std::vector<const ScenarioRow*> rows_of(const std::vector<const ScenarioRow*>& rows, const std::string& schedule,
                                        bool one_thread) {
  std::vector<const ScenarioRow*> found;
  for (const ScenarioRow* row : rows) {
    if (row->spec.schedule == schedule && (resolve(row->spec).program == Program::one_thread) == one_thread)
      found.push_back(row);
  }
  return found;
}

const ScenarioRow* with_microbatches(const std::vector<const ScenarioRow*>& rows, std::int64_t microbatches) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto* row) { return microbatches_of(*row) == microbatches; });
  return found == rows.end() ? nullptr : *found;
}

bool same_order_everywhere(const EvaluatedRun& run) {
  const auto& gpus = run.metrics.gpus;
  return std::all_of(gpus.begin(), gpus.end(), [&](const GpuMetrics& gpu) { return gpu.ops == gpus.front().ops; });
}

/// Until the first backward of the step begins.
std::int64_t first_backward_ns(const EvaluatedRun& run) {
  std::int64_t first_ns = run.metrics.step_ns;
  for (const Span& span : run.result.timeline.spans) {
    if (span.kind == TaskKind::backward || span.kind == TaskKind::backward_input)
      first_ns = std::min(first_ns, span.start_ns);
  }
  return first_ns;
}

/// The schedules of the rows, in the order of the table.
std::vector<std::string> schedules_of(const std::vector<const ScenarioRow*>& rows) {
  std::vector<std::string> names;
  for (const ScenarioRow* row : rows) {
    if (std::find(names.begin(), names.end(), row->spec.schedule) == names.end()) names.push_back(row->spec.schedule);
  }
  return names;
}

std::vector<const ScenarioRow*> rows_of_schedule(const std::vector<const ScenarioRow*>& rows,
                                                 const std::string& schedule) {
  std::vector<const ScenarioRow*> found;
  for (const ScenarioRow* row : rows) {
    if (row->spec.schedule == schedule) found.push_back(row);
  }
  return found;
}

std::string memory_against(std::int64_t bytes, std::int64_t than) {
  const double change = 100 * (static_cast<double>(bytes) / static_cast<double>(than) - 1);
  return fixed(std::abs(change), 1) + " % " + (change > 0 ? "more" : "less");
}

/// One sentence a number of micro-batches: time, bubble, memory of 1F1B against GPipe, a worker a GPU.
Sentences one_f_one_b_against_gpipe(const std::vector<const ScenarioRow*>& gpipe,
                                    const std::vector<const ScenarioRow*>& one_f_one_b) {
  Sentences out;
  for (const ScenarioRow* row : one_f_one_b) {
    const ScenarioRow* other = with_microbatches(gpipe, microbatches_of(*row));
    if (!other) continue;
    const Side side = side_of(std::vector{row, other});
    const EvaluatedRun &here = of(*row, side), &there = of(*other, side);
    const std::int64_t bytes = largest_memory(here), than = largest_memory(there);
    std::string text =
        microbatches_text(*row) + ": 1F1B takes " + ms(step_ms(*row, side)) + ", GPipe " + ms(step_ms(*other, side)) +
        " (" + name(side) + "), " + time_against(step_ms(*row, side), step_ms(*other, side)) + "; bubble " +
        percent(here.metrics.bubble_fraction) + " and " + percent(there.metrics.bubble_fraction) +
        " (equal stages and no other cost: both " + percent(bubble_of_gpipe(*row)) +
        "). 1F1B keeps the activations of " + count_of(most_live(row->predicted.result), "micro-batch", "es") +
        " at most, GPipe of " + std::to_string(most_live(other->predicted.result));
    if (bytes > 0 && than > 0) {
      const std::int64_t most = std::max(bytes, than);
      text += "; the fullest GPU holds " + memory_like(bytes, most) + ", with GPipe " + memory_like(than, most) +
              (bytes == than ? "" : ": " + memory_against(bytes, than));
    }
    out.push_back(text + ".");
  }
  return out;
}

/// "4, 3, 2, 1": by GPU.
std::string live_by_gpu(const RunResult& run) {
  std::string text;
  for (const LiveActivations& of_gpu : run.live) text += (text.empty() ? "" : ", ") + std::to_string(of_gpu.count);
  return text;
}

/// "0.6 % less to 0.7 % more time": 1F1B against GPipe with as many micro-batches.
std::string range_of_times(const std::vector<const ScenarioRow*>& gpipe,
                           const std::vector<const ScenarioRow*>& one_f_one_b) {
  double least = HUGE_VAL, most = 0;
  for (const ScenarioRow* row : one_f_one_b) {
    const ScenarioRow* other = with_microbatches(gpipe, microbatches_of(*row));
    if (!other) continue;
    const Side side = side_of(std::vector{row, other});
    least = std::min(least, step_ms(*row, side) / step_ms(*other, side));
    most = std::max(most, step_ms(*row, side) / step_ms(*other, side));
  }
  if (most == 0) return "";
  const std::string from = time_against(least, 1), to = time_against(most, 1);
  return ": 1F1B takes " + (from == to ? from : from + " to " + to);
}

/// Time is won where memory decides: below what any GPipe of the table needs, whatever its workers (`any_gpipe`;
/// `gpipe`: a worker a GPU). Memory and times are of one kind.
Sentences when_one_f_one_b_is_faster(const std::vector<const ScenarioRow*>& any_gpipe,
                                     const std::vector<const ScenarioRow*>& gpipe,
                                     const std::vector<const ScenarioRow*>& one_f_one_b) {
  std::vector<const ScenarioRow*> all = any_gpipe;
  all.insert(all.end(), one_f_one_b.begin(), one_f_one_b.end());
  const bool measured = side_of(all) == Side::measured && std::all_of(all.begin(), all.end(), [](auto* row) {
                          return largest_memory(*row->measured) > 0;
                        });
  const Side side = measured ? Side::measured : Side::predicted;
  const auto memory = [&](const ScenarioRow* row) { return largest_memory(of(*row, side)); };
  const std::int64_t least_bytes = memory(
      *std::min_element(any_gpipe.begin(), any_gpipe.end(), [&](auto* a, auto* b) { return memory(a) < memory(b); }));
  std::vector<const ScenarioRow*> fitting;
  for (const ScenarioRow* row : one_f_one_b) {
    if (memory(row) < least_bytes) fitting.push_back(row);
  }
  std::string text = "When is it also faster? With as many micro-batches both have the same bubble" +
                     range_of_times(gpipe, one_f_one_b) + ".";
  if (fitting.empty()) return {text};
  const ScenarioRow& best = fastest_of(fitting, side);
  return {text + " It wins where memory decides: on GPUs with less than " + memory_like(least_bytes, least_bytes) +
          " no GPipe of this table fits, 1F1B with " + microbatches_text(best) + " does, in " +
          memory_like(memory(&best), least_bytes) + " and " + ms(step_ms(best, side)) + " (all " + name(side) + ")."};
}

/// GPU 0 is where the next micro-batch begins: how long it waits between its operations.
std::string wait_of_first_gpu(const EvaluatedRun& run) {
  return ms_of(run.metrics.gpus.front().idle_between_ns);
}

Sentences option_c_against_gpipe(const std::vector<const ScenarioRow*>& gpipe,
                                 const std::vector<const ScenarioRow*>& option_c,
                                 const std::vector<const ScenarioRow*>& one_f_one_b) {
  if (option_c.empty()) return {};
  const ScenarioRow& row = *option_c.back();
  const ScenarioRow *other = with_microbatches(gpipe, microbatches_of(row)),
                    *real = with_microbatches(one_f_one_b, microbatches_of(row));
  if (!other) return {};
  const Side side = side_of(std::vector{&row, other});
  const EvaluatedRun &here = of(row, side), &there = of(*other, side);
  std::string text = "Option C as the course writes it, " + microbatches_text(row) + ": " + ms(step_ms(row, side)) +
                     " against " + ms(step_ms(*other, side)) + " of GPipe by the same one thread (" + name(side) +
                     "), " + time_against(step_ms(row, side), step_ms(*other, side)) + "; " + at_once_text(here) +
                     " (GPipe " + fixed(concurrency(there.result).average, 2) + "). Why: every GPU has the order " +
                     order_of_first_gpu(here) +
                     ", so GPU 0 may start F_i only when B_(i-2) has come back through all GPUs: " + "it waits " +
                     wait_of_first_gpu(here) + " between its operations, with GPipe " + wait_of_first_gpu(there);
  if (real && !real->predicted.result.live.empty()) {
    const Side of_real = real->measured ? Side::measured : Side::predicted;
    text += ". Real 1F1B starts " + count_of(real->predicted.result.live.front().count, "forward") +
            " on GPU 0 before its first backward and waits " + wait_of_first_gpu(of(*real, of_real)) + " (" +
            name(of_real) + ")";
  }
  return {text + "."};
}

}  // namespace

Sentences option_a_naive(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model_and_gpus(table)) {
    const Side side = side_of(rows);
    out.push_back(times_of_model(rows, side));
    const EvaluatedRun& last = of(*rows.back(), side);
    out.push_back("Why it is not pipelining: the order on every GPU is " + order_of_first_gpu(of(*rows.front(), side)) +
                  ", so the forward of a micro-batch waits for the backward of the one before. With " +
                  microbatches_text(*rows.back()) + ": " + at_once_text(last) + "; bubble " +
                  percent(last.metrics.bubble_fraction) + ".");
  }
  return out;
}

Sentences option_b_gpipe(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model_and_gpus(table)) {
    const Side side = side_of(rows);
    out.push_back(times_of_model(rows, side));
    for (const ScenarioRow* row : rows) {
      const EvaluatedRun& run = of(*row, side);
      const FillAndDrain ends = fill_and_drain(run.result);
      out.push_back(microbatches_text(*row) + ": bubble " + percent(run.metrics.bubble_fraction) +
                    " (equal stages and no other cost: (P - 1) / (M + P - 1) = " + percent(bubble_of_gpipe(*row)) +
                    "). Fill: the last GPU to begin waits " + ms_of(ends.fill_ns) +
                    " for its first forward; drain: the last GPU ends " + ms_of(ends.drain_ns) +
                    " after the first one that is done.");
    }
  }
  return out;
}

Sentences option_c(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model_and_gpus(table)) {
    const Side side = side_of(rows);
    out.push_back(times_of_model(rows, side));
    for (const ScenarioRow* row : rows) {
      const EvaluatedRun& run = of(*row, side);
      out.push_back("Order with " + microbatches_text(*row) + ", " +
                    (same_order_everywhere(run) ? "the same on every GPU: " : "of GPU 0: ") + order_of_first_gpu(run) +
                    "; at most " + count_of(most_live(row->predicted.result), "micro-batch", "es") +
                    " in flight. The first backward begins after " + ms_of(first_backward_ns(run)) + " of " +
                    ms_of(run.metrics.step_ns) + ".");
    }
    const EvaluatedRun& last = of(*rows.back(), side);
    out.push_back(
        "What overlaps, with " + microbatches_text(*rows.back()) + ": " + at_once_text(last) + "; bubble " +
        percent(last.metrics.bubble_fraction) + ". GPU 0 waits " + ms_of(last.metrics.gpus.front().idle_between_ns) +
        " between its operations: in its order F_i comes after B_(i-2), which has been through all GPUs and back, "
        "so two micro-batches go through the pipeline and the next one waits.");
  }
  return out;
}

Sentences options_by_microbatches(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model_and_gpus(table)) {
    const Side side = side_of(rows);
    std::string slower, winner;
    double best_gain = 0;
    for (const std::string& schedule : schedules_of(rows)) {
      const auto own = rows_of_schedule(rows, schedule);
      out.push_back(schedule + ", " + times_of_model(own, side));
      for (std::size_t i = 1; i < own.size(); ++i) {
        if (step_ms(*own[i], side) <= step_ms(*own[i - 1], side)) continue;
        slower += (slower.empty() ? "" : ", ") + schedule + " with " + std::to_string(microbatches_of(*own[i])) +
                  " takes " + time_against(step_ms(*own[i], side), step_ms(*own[i - 1], side)) + " than with " +
                  std::to_string(microbatches_of(*own[i - 1]));
      }
      const double gain = step_ms(*own.front(), side) / step_ms(*own.back(), side);
      if (own.size() == 1 || gain <= best_gain) continue;
      best_gain = gain;
      winner = schedule;
    }
    const ScenarioRow& fastest = fastest_of(rows, side);
    out.push_back((winner.empty() ? ""
                                  : "Do more micro-batches always help? " +
                                        (slower.empty() ? "In these rows yes" : "No: " + slower) + ". Most gains " +
                                        winner + ", which is " + fixed(best_gain, 2) +
                                        " times as fast with the most micro-batches as with the fewest. ") +
                  "Fastest of all: " + fastest.spec.schedule + " with " + std::to_string(microbatches_of(fastest)) +
                  ", " + ms(step_ms(fastest, side)) + " (" + name(side) + ").");
  }
  return out;
}

Sentences pipeline_schedules(const ScenarioTable& table) {
  Sentences out;
  const auto add = [&](const Sentences& more) { out.insert(out.end(), more.begin(), more.end()); };
  for (const auto& rows : rows_by_model_and_gpus(table)) {
    const auto gpipe = rows_of(rows, "gpipe", false), one_f_one_b = rows_of(rows, "1f1b", false);
    out.push_back(work_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + ":");
    add(one_f_one_b_against_gpipe(gpipe, one_f_one_b));
    if (!one_f_one_b.empty() && !gpipe.empty()) {
      const ScenarioRow &row = *one_f_one_b.back(), &other = *gpipe.back();
      out.push_back("Why 1F1B needs less memory: stage s of P starts backwards after P - s forwards, so with " +
                    microbatches_text(row) + " the GPUs keep " + live_by_gpu(row.predicted.result) +
                    " of them at most; GPipe keeps all until its first backward (" +
                    live_by_gpu(other.predicted.result) + ").");
      add(when_one_f_one_b_is_faster(rows_of_schedule(rows, "gpipe"), gpipe, one_f_one_b));
    }
    add(option_c_against_gpipe(rows_of(rows, "gpipe", true), rows_of(rows, "option-c", true), one_f_one_b));
  }
  return out;
}

}  // namespace pdl
