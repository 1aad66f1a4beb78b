// One function a question. No number is typed here: each comes from the table.
#include "sim/report/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "sim/report/concurrency.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/scenario_table.hpp"
#include "sim/report/terminal.hpp"

namespace pdl {
namespace {

using Sentences = std::vector<std::string>;

/// Which of the two numbers of a row sentences use. What is compared is of one kind: measured only if every row is.
enum class Side { predicted, measured };

template <typename Rows>
Side side_of(const Rows& rows) {
  const auto measured = [](const auto& row) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(row)>>) {
      return row->measured.has_value();
    } else {
      return row.measured.has_value();
    }
  };
  return std::all_of(rows.begin(), rows.end(), measured) ? Side::measured : Side::predicted;
}

const EvaluatedRun& of(const ScenarioRow& row, Side side) {
  return side == Side::measured ? *row.measured : row.predicted;
}
double step_ms(const ScenarioRow& row, Side side) {
  return of(row, side).result.step_time.median_ms;
}
std::string name(Side side) {
  return side == Side::measured ? "measured" : "predicted";
}
std::string ms(double value) {
  return fixed(value, 2) + " ms";
}
std::string ms_of(std::int64_t ns) {
  return ms(static_cast<double>(ns) / 1e6);
}
std::string count_of(std::int64_t count, const std::string& what, const std::string& plural = "s") {
  return grouped(count) + " " + what + (count == 1 ? "" : plural);
}
std::string gpus_of(const ScenarioRow& row) {
  return count_of(row.spec.gpus, "GPU");
}

/// How many slices there are; a batch that does not divide may give fewer than were asked for.
std::int64_t microbatches_of(const ScenarioRow& row) {
  return static_cast<std::int64_t>(row.predicted.result.microbatch_rows.size());
}
std::string microbatches_text(const ScenarioRow& row) {
  return count_of(microbatches_of(row), "micro-batch", "es");
}

/// "3.1 % more time", "the same time (within 0.1 %)".
std::string time_against(double time_ms, double than_ms) {
  const double change = 100 * (time_ms / than_ms - 1);
  if (std::abs(change) < 0.1) return "the same time (within 0.1 %)";
  return fixed(std::abs(change), 1) + " % " + (change > 0 ? "more" : "less") + " time";
}

std::string least_to_most(double least, double most, const std::string& unit) {
  const std::string from = fixed(least, 1), to = fixed(most, 1);
  return (from == to ? from : from + " to " + to) + " " + unit;
}

std::string busy_range(const EvaluatedRun& run) {
  double least = 100, most = 0;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    const double share = 100 * static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  return least_to_most(least, most, "%");
}

std::int64_t largest_memory(const EvaluatedRun& run) {
  const auto& bytes = run.result.peak_memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

/// Rows with the same model and batch, in the order of the table.
std::vector<std::vector<const ScenarioRow*>> rows_by_model(const ScenarioTable& table) {
  std::vector<std::vector<const ScenarioRow*>> groups;
  std::vector<std::size_t> baselines;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::size_t base = baseline_row(table, r);
    const auto found = std::find(baselines.begin(), baselines.end(), base);
    if (found == baselines.end()) {
      baselines.push_back(base);
      groups.push_back({&table.rows[r]});
    } else {
      groups[static_cast<std::size_t>(found - baselines.begin())].push_back(&table.rows[r]);
    }
  }
  return groups;
}

std::string at_once_text(const EvaluatedRun& run) {
  const Concurrency at_once = concurrency(run.result);
  return "at most " + std::to_string(at_once.most) + " of " + count_of(run.result.spec.gpus, "GPU") +
         " compute at once, " + fixed(at_once.average, 2) + " on average";
}

std::string model_text(const RunSpec& spec) {
  return std::to_string(spec.depth) + " layers of " + std::to_string(spec.dim) + ", batch " +
         std::to_string(spec.batch);
}

Sentences current_behaviour(const ScenarioTable& table) {
  Sentences out;
  for (const ScenarioRow& row : table.rows) {
    const Side side = row.measured ? Side::measured : Side::predicted;
    const EvaluatedRun& run = of(row, side);
    std::string holds, waits;
    const std::vector<std::string> layers = layers_of_gpus(run.result);
    for (std::size_t g = 0; g < layers.size(); ++g) {
      const std::string gpu = (g == 0 ? "GPU " : ", GPU ") + std::to_string(g);
      holds += gpu + " holds " + layers[g];
      waits += gpu + " " + ms_of(run.metrics.gpus[g].idle_ns);
    }
    out.push_back("Layers: " + holds + ", of " + std::to_string(row.spec.depth) + " in all.");
    const ForwardTransfers forward = forward_transfers(run.result);
    out.push_back("The activations move " + count_of(forward.count, "time") +
                  " in the forward pass, from the last layer of a GPU to the "
                  "next GPU (" +
                  decimal_bytes(forward.bytes) + "); their gradients move " +
                  count_of(run.metrics.transfer_count - forward.count, "time") +
                  " in the backward pass, the other way (" + decimal_bytes(run.metrics.transfer_bytes - forward.bytes) +
                  ").");
    out.push_back("Idle in a step of " + ms(step_ms(row, side)) + ": " + waits + " (" + name(side) + "); " +
                  at_once_text(run) + ".");
  }
  return out;
}

Sentences model_size(const ScenarioTable& table) {
  std::vector<const ScenarioRow*> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->spec.depth < b->spec.depth; });
  const Side side = side_of(rows);
  std::string times, faster;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double time_ms = step_ms(*rows[i], side);
    times += (i == 0 ? "" : "; ") + std::to_string(rows[i]->spec.depth) + " layers " + ms(time_ms) + ", " +
             ms(time_ms / static_cast<double>(rows[i]->spec.depth)) + " a layer";
    if (i > 0 && time_ms < step_ms(*rows[i - 1], side)) {
      faster =
          std::to_string(rows[i]->spec.depth) + " layers are faster than " + std::to_string(rows[i - 1]->spec.depth);
    }
  }
  const ScenarioRow &least = *rows.front(), &most = *rows.back();
  const double growth = step_ms(most, side) / step_ms(least, side);
  const double depth_growth = static_cast<double>(most.spec.depth) / static_cast<double>(least.spec.depth);
  return {"Step time (" + name(side) + "): " + times + ".",
          (faster.empty() ? "No, more depth never runs faster: " : "Yes: " + faster + "; ") + fixed(depth_growth, 1) +
              " times the layers take " + fixed(growth, 2) + " times the time; " + at_once_text(of(most, side)) + "."};
}

/// Layer -> GPU when `depth` layers are spread as evenly as possible and the first GPUs take the layers that are left.
std::int64_t gpu_by_rule(std::int64_t layer, std::int64_t depth, std::int64_t gpus) {
  const std::int64_t each = depth / gpus, more = depth % gpus, boundary = more * (each + 1);
  return layer < boundary ? layer / (each + 1) : more + (layer - boundary) / each;
}

Sentences all_gpus(const ScenarioTable& table) {
  Sentences out;
  bool holds = true;
  for (const ScenarioRow& row : table.rows) {
    std::string counts;
    for (const GpuMetrics& gpu : row.predicted.metrics.gpus) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(gpu.layers);
    }
    for (const Stage& stage : row.predicted.result.stages) {
      for (std::int32_t i = stage.first_layer; i < stage.first_layer + stage.layer_count; ++i) {
        holds = holds && gpu_by_rule(i, row.spec.depth, row.spec.gpus) == stage.worker;
      }
    }
    out.push_back(std::to_string(row.spec.depth) + " layers on " + gpus_of(row) + ": " + counts + ".");
  }
  out.push_back(
      "Rule: with q = DEPTH div GPUs and r = DEPTH mod GPUs, the first r GPUs hold q + 1 layers, the others q; layer "
      "i is on GPU i div (q + 1) if i < r (q + 1), else on GPU r + (i - r (q + 1)) div q. " +
      std::string(holds ? "It gives the map of every row." : "It does NOT give the map of every row."));
  return out;
}

std::string busy_sentence(const ScenarioTable& table) {
  bool all_busy = true;
  std::string text;
  for (const ScenarioRow& row : table.rows) {
    const Side side = row.measured ? Side::measured : Side::predicted;
    const Concurrency at_once = concurrency(of(row, side).result);
    all_busy = all_busy && at_once.most == row.spec.gpus;
    text += (text.empty() ? "on " : "; on ") + gpus_of(row) + " each computes " + busy_range(of(row, side)) +
            " of the step, at most " + count_of(at_once.most, "GPU") + " at once, " + fixed(at_once.average, 2) +
            " on average (" + name(side) + ")";
  }
  return std::string("Are all GPUs busy? ") + (all_busy ? "At times all of them: " : "No: ") + text + ".";
}

Sentences more_gpus(const ScenarioTable& table) {
  Sentences out = {busy_sentence(table)};
  const ScenarioRow& first = table.rows.front();
  for (std::size_t r = 1; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    const Side side = side_of(std::vector<const ScenarioRow*>{&first, &row});
    const double here_ms = step_ms(row, side), there_ms = step_ms(first, side);
    std::string sentence = "Is it faster on " + gpus_of(row) + " than on " + std::to_string(first.spec.gpus) + "? " +
                           (here_ms < 0.999 * there_ms ? "Yes: " : "No: ") + ms(here_ms) + " against " + ms(there_ms) +
                           " (both " + name(side) + "), " + time_against(here_ms, there_ms) + ".";
    const std::int64_t here = largest_memory(of(row, side)), there = largest_memory(of(first, side));
    if (here > 0 && there > 0)
      sentence += " The fullest GPU holds " + binary_bytes(here) + " instead of " + binary_bytes(there) + ".";
    out.push_back(sentence);
  }
  return out;
}

Sentences data_transfer(const ScenarioTable& table) {
  Sentences out;
  bool one_less = true, whole_activation = true;
  for (const ScenarioRow& row : table.rows) {
    const EvaluatedRun& run = row.best();
    const ForwardTransfers forward = forward_transfers(run.result);
    const auto slices = static_cast<std::int64_t>(run.result.microbatch_rows.size());
    one_less = one_less && forward.count == (row.spec.gpus - 1) * slices;
    whole_activation = whole_activation && forward.bytes == (row.spec.gpus - 1) * row.spec.batch * row.spec.dim * 4;
    out.push_back("On " + gpus_of(row) + " one forward pass moves data " + count_of(forward.count, "time") + ", " +
                  decimal_bytes(forward.bytes) + " in all; with the backward pass " +
                  count_of(run.metrics.transfer_count, "transfer") + " and " +
                  decimal_bytes(run.metrics.transfer_bytes) + " a step.");
  }
  if (one_less) out.push_back("Communication grows with GPUs - 1: each boundary between two GPUs is crossed once.");
  if (whole_activation)
    out.push_back("Each crossing carries the whole activation, batch x dim x 4 bytes, whatever the number of GPUs.");
  return out;
}

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
  return text + "; fastest with " + std::to_string(microbatches_of(fastest_of(rows, side))) + "; with " +
         std::to_string(microbatches_of(last)) + " the step takes " +
         time_against(step_ms(last, side), step_ms(first, side)) + " than with " + std::to_string(microbatches_of(first)) +
         ".";
}

/// The same, opened by "8 layers of 64, batch 256 (measured): ".
std::string times_of_model(const std::vector<const ScenarioRow*>& rows, Side side) {
  return model_text(rows.front()->spec) + " (" + name(side) + "): " + times_by_microbatches(rows, side);
}

std::string order_of_first_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::string& operation : run.metrics.gpus.front().ops) text += (text.empty() ? "" : " ") + operation;
  return text;
}

Sentences option_a_naive(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
    const Side side = side_of(rows);
    out.push_back(times_of_model(rows, side));
    const EvaluatedRun& last = of(*rows.back(), side);
    out.push_back("Why it is not pipelining: the order on every GPU is " + order_of_first_gpu(of(*rows.front(), side)) +
                  ", so the forward of a micro-batch waits for the backward of the one before. With " +
                  microbatches_text(*rows.back()) + ": " + at_once_text(last) +
                  "; bubble " + percent(last.metrics.bubble_fraction) + ".");
  }
  return out;
}

/// Idle over all, equal stages, one a GPU, nothing but their work: GPipe and 1F1B.
double bubble_of_gpipe(const ScenarioRow& row) {
  const auto gpus = static_cast<double>(row.spec.gpus), slices = static_cast<double>(microbatches_of(row));
  return (gpus - 1) / (slices + gpus - 1);
}

Sentences option_b_gpipe(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
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

/// Rows of one schedule and kind of workers.
std::vector<const ScenarioRow*> rows_of(const std::vector<const ScenarioRow*>& rows, const std::string& schedule,
                                        bool one_thread) {
  std::vector<const ScenarioRow*> found;
  for (const ScenarioRow* row : rows) {
    if (row->spec.schedule == schedule && (row->spec.workers == Workers::one) == one_thread) found.push_back(row);
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
    if (span.kind == TaskKind::backward || span.kind == TaskKind::backward_input) first_ns = std::min(first_ns, span.start_ns);
  }
  return first_ns;
}

Sentences option_c(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
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
    out.push_back("What overlaps, with " + microbatches_text(*rows.back()) + ": " + at_once_text(last) + "; bubble " +
                  percent(last.metrics.bubble_fraction) + ". GPU 0 waits " +
                  ms_of(last.metrics.gpus.front().idle_between_ns) +
                  " between its operations: in its order F_i comes after B_(i-2), which has been through all GPUs and back, "
                  "so two micro-batches go through the pipeline and the next one waits.");
  }
  return out;
}

/// The schedules of the rows, in the order of the table.
std::vector<std::string> schedules_of(const std::vector<const ScenarioRow*>& rows) {
  std::vector<std::string> names;
  for (const ScenarioRow* row : rows) {
    if (std::find(names.begin(), names.end(), row->spec.schedule) == names.end()) names.push_back(row->spec.schedule);
  }
  return names;
}

std::vector<const ScenarioRow*> rows_of_schedule(const std::vector<const ScenarioRow*>& rows, const std::string& schedule) {
  std::vector<const ScenarioRow*> found;
  for (const ScenarioRow* row : rows) {
    if (row->spec.schedule == schedule) found.push_back(row);
  }
  return found;
}

Sentences options_by_microbatches(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
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
      if (gain > best_gain) {
        best_gain = gain;
        winner = schedule;
      }
    }
    const ScenarioRow& fastest = fastest_of(rows, side);
    out.push_back("Do more micro-batches always help? " + (slower.empty() ? "In this table yes" : "No: " + slower) +
                  ". Most gains " + winner + ", which is " + fixed(best_gain, 2) +
                  " times as fast with the most micro-batches as with the fewest. Fastest of all: " +
                  fastest.spec.schedule + " with " + std::to_string(microbatches_of(fastest)) + ", " +
                  ms(step_ms(fastest, side)) + " (" + name(side) + ").");
  }
  return out;
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
    std::string text = microbatches_text(*row) + ": 1F1B takes " + ms(step_ms(*row, side)) + ", GPipe " +
                       ms(step_ms(*other, side)) + " (" + name(side) + "), " +
                       time_against(step_ms(*row, side), step_ms(*other, side)) + "; bubble " +
                       percent(here.metrics.bubble_fraction) + " and " + percent(there.metrics.bubble_fraction) +
                       " (equal stages and no other cost: both " + percent(bubble_of_gpipe(*row)) + "). 1F1B keeps the activations of " +
                       count_of(most_live(row->predicted.result), "micro-batch", "es") + " at most, GPipe of " +
                       std::to_string(most_live(other->predicted.result));
    if (bytes > 0 && than > 0) {
      text += "; the fullest GPU holds " + binary_bytes(bytes) + ", with GPipe " + binary_bytes(than) +
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
std::string range_of_times(const std::vector<const ScenarioRow*>& gpipe, const std::vector<const ScenarioRow*>& one_f_one_b) {
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

/// Time is won where memory decides: below what any GPipe of the table needs.
Sentences when_one_f_one_b_is_faster(const std::vector<const ScenarioRow*>& gpipe,
                                     const std::vector<const ScenarioRow*>& one_f_one_b) {
  const auto smallest = *std::min_element(gpipe.begin(), gpipe.end(), [](auto* a, auto* b) {
    return largest_memory(a->predicted) < largest_memory(b->predicted);
  });
  const std::int64_t least_bytes = largest_memory(smallest->predicted);
  std::vector<const ScenarioRow*> fitting;
  for (const ScenarioRow* row : one_f_one_b) {
    if (largest_memory(row->predicted) < least_bytes) fitting.push_back(row);
  }
  std::string text = "When is it also faster? With as many micro-batches both have the same bubble" +
                     range_of_times(gpipe, one_f_one_b) + ".";
  if (fitting.empty()) return {text};
  const Side side = side_of(fitting);
  const ScenarioRow& best = fastest_of(fitting, side);
  return {text + " It wins where memory decides: on GPUs with less than " + binary_bytes(least_bytes) +
          " no GPipe of this table fits (predicted), 1F1B with " + microbatches_text(best) + " does, in " +
          binary_bytes(largest_memory(best.predicted)) + " and " + ms(step_ms(best, side)) + " (" + name(side) + ")."};
}

/// GPU 0 is where the next micro-batch begins: how long it waits between its operations.
std::string wait_of_first_gpu(const EvaluatedRun& run) {
  return ms_of(run.metrics.gpus.front().idle_between_ns);
}

Sentences option_c_against_gpipe(const std::vector<const ScenarioRow*>& gpipe, const std::vector<const ScenarioRow*>& option_c,
                                 const std::vector<const ScenarioRow*>& one_f_one_b) {
  if (option_c.empty()) return {};
  const ScenarioRow& row = *option_c.back();
  const ScenarioRow *other = with_microbatches(gpipe, microbatches_of(row)),
                    *real = with_microbatches(one_f_one_b, microbatches_of(row));
  if (!other) return {};
  const Side side = side_of(std::vector{&row, other});
  const EvaluatedRun &here = of(row, side), &there = of(*other, side);
  std::string text = "Option C as the course writes it, " + microbatches_text(row) + ": " + ms(step_ms(row, side)) +
                     " against " + ms(step_ms(*other, side)) + " of GPipe by the same one thread (" + name(side) + "), " +
                     time_against(step_ms(row, side), step_ms(*other, side)) + "; " + at_once_text(here) + " (GPipe " +
                     fixed(concurrency(there.result).average, 2) + "). Why: every GPU has the order " +
                     order_of_first_gpu(here) + ", so GPU 0 may start F_i only when B_(i-2) has come back through all GPUs: " +
                     "it waits " + wait_of_first_gpu(here) + " between its operations, with GPipe " +
                     wait_of_first_gpu(there);
  if (real && !real->predicted.result.live.empty()) {
    const Side of_real = real->measured ? Side::measured : Side::predicted;
    text += ". Real 1F1B starts " + count_of(real->predicted.result.live.front().count, "forward") +
            " on GPU 0 before its first backward and waits " + wait_of_first_gpu(of(*real, of_real)) + " (" + name(of_real) + ")";
  }
  return {text + "."};
}

Sentences pipeline_schedules(const ScenarioTable& table) {
  Sentences out;
  const auto add = [&](const Sentences& more) { out.insert(out.end(), more.begin(), more.end()); };
  for (const auto& rows : rows_by_model(table)) {
    const auto gpipe = rows_of(rows, "gpipe", false), one_f_one_b = rows_of(rows, "1f1b", false);
    out.push_back(model_text(rows.front()->spec) + ":");
    add(one_f_one_b_against_gpipe(gpipe, one_f_one_b));
    if (!one_f_one_b.empty() && !gpipe.empty()) {
      const ScenarioRow &row = *one_f_one_b.back(), &other = *gpipe.back();
      out.push_back("Why 1F1B needs less memory: stage s of P starts backwards after P - s forwards, so with " +
                    microbatches_text(row) + " the GPUs keep " + live_by_gpu(row.predicted.result) +
                    " of them at most; GPipe keeps all until its first backward (" + live_by_gpu(other.predicted.result) + ").");
      add(when_one_f_one_b_is_faster(gpipe, one_f_one_b));
    }
    add(option_c_against_gpipe(rows_of(rows, "gpipe", true), rows_of(rows, "option-c", true), one_f_one_b));
  }
  return out;
}

const std::array kAnswers = {
    Answer{"current_behaviour", current_behaviour},
    Answer{"model_size", model_size},
    Answer{"all_gpus", all_gpus},
    Answer{"more_gpus", more_gpus},
    Answer{"data_transfer", data_transfer},
    Answer{"option_a_naive", option_a_naive},
    Answer{"option_b_gpipe", option_b_gpipe},
    Answer{"option_c", option_c},
    Answer{"options_by_microbatches", options_by_microbatches},
    Answer{"pipeline_schedules", pipeline_schedules},
};

}  // namespace

std::span<const Answer> answers() {
  return kAnswers;
}

const Answer* find_answer(const std::string& name) {
  const auto found =
      std::find_if(kAnswers.begin(), kAnswers.end(), [&](const Answer& answer) { return answer.name == name; });
  return found == kAnswers.end() ? nullptr : &*found;
}

}  // namespace pdl
