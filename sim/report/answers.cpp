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
    for (const Stage& stage : row.predicted.result.stages) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(stage.layer_count);
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

/// "8 layers of 64, batch 256 (measured): 2 micro-batches 60.10 ms, 4 ..., 8 ...; fastest with 8; ...".
std::string times_by_microbatches(const std::vector<const ScenarioRow*>& rows, Side side) {
  std::string text;
  for (const ScenarioRow* row : rows) {
    text += (text.empty() ? "" : ", ") + count_of(row->spec.microbatches, "micro-batch", "es") + " " +
            ms(step_ms(*row, side));
  }
  const ScenarioRow& fastest = **std::min_element(
      rows.begin(), rows.end(), [&](auto* a, auto* b) { return step_ms(*a, side) < step_ms(*b, side); });
  return model_text(rows.front()->spec) + " (" + name(side) + "): " + text + "; fastest with " +
         std::to_string(fastest.spec.microbatches) + "; with " + std::to_string(rows.back()->spec.microbatches) +
         " the step takes " + time_against(step_ms(*rows.back(), side), step_ms(*rows.front(), side)) + " than with " +
         std::to_string(rows.front()->spec.microbatches) + ".";
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
    out.push_back(times_by_microbatches(rows, side));
    const EvaluatedRun& last = of(*rows.back(), side);
    out.push_back("Why it is not pipelining: the order on every GPU is " + order_of_first_gpu(of(*rows.front(), side)) +
                  ", so the forward of a micro-batch waits for the backward of the one before. With " +
                  count_of(rows.back()->spec.microbatches, "micro-batch", "es") + ": " + at_once_text(last) +
                  "; bubble " + percent(last.metrics.bubble_fraction) + ".");
  }
  return out;
}

Sentences option_b_gpipe(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
    const Side side = side_of(rows);
    out.push_back(times_by_microbatches(rows, side));
    for (const ScenarioRow* row : rows) {
      const EvaluatedRun& run = of(*row, side);
      const FillAndDrain ends = fill_and_drain(run.result);
      const auto stages = static_cast<double>(row->spec.gpus),
                 slices = static_cast<double>(run.result.microbatch_rows.size());
      out.push_back(
          count_of(row->spec.microbatches, "micro-batch", "es") + ": bubble " + percent(run.metrics.bubble_fraction) +
          " (equal stages and no other cost: (P - 1) / (M + P - 1) = " + percent((stages - 1) / (slices + stages - 1)) +
          "). Fill: the last GPU waits " + ms_of(ends.fill_ns) + " for its first forward; drain: GPU 0 ends " +
          ms_of(ends.drain_ns) + " after the last GPU.");
    }
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
