// Homework 3: a model split over GPUs by its layers.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/concurrency.hpp"
#include "sim/run/describe_run.hpp"

namespace pdl {
namespace {

/// Layer -> GPU when `depth` layers are spread as evenly as possible and the first GPUs take the layers that are left.
std::int64_t gpu_by_rule(std::int64_t layer, std::int64_t depth, std::int64_t gpus) {
  const std::int64_t each = depth / gpus, more = depth % gpus, boundary = more * (each + 1);
  return layer < boundary ? layer / (each + 1) : more + (layer - boundary) / each;
}

std::string busy_sentence(const ScenarioTable& table) {
  bool all_busy = true;
  std::string text;
  for (const ScenarioRow& row : table.rows) {
    const Side side = row.measured ? Side::measured : Side::predicted;
    const Concurrency at_once = concurrency(of(row, side).result);
    all_busy = all_busy && at_once.most == row.spec.gpus;
    text += (text.empty() ? "on " : "; on ") + gpus_of(row) + " each is busy " + busy_range(of(row, side)) +
            " of the step, at most " + count_of(at_once.most, "GPU") + " at once, " + fixed(at_once.average, 2) +
            " on average (" + name(side) + (is_host_bound(row) ? "; bound by the host, whose waits are inside" : "") +
            recording_text(of(row, side)) + ")";
  }
  return std::string("Are all GPUs busy? ") + (all_busy ? "At times all of them: " : "No: ") + text + ".";
}

}  // namespace

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
  if (rows.size() == 1) return {"Step time (" + name(side) + "): " + times + "."};
  const double growth = step_ms(most, side) / step_ms(least, side);
  const double depth_growth = static_cast<double>(most.spec.depth) / static_cast<double>(least.spec.depth);
  return {"Step time (" + name(side) + "): " + times + ".",
          (faster.empty() ? "No, more depth never runs faster: " : "Yes: " + faster + "; ") + fixed(depth_growth, 1) +
              " times the layers take " + fixed(growth, 2) + " times the time; " + at_once_text(of(most, side)) + "."};
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
        holds = holds && gpu_by_rule(i, row.spec.depth, row.spec.gpus) == only_worker(stage);
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

Sentences more_gpus(const ScenarioTable& table) {
  Sentences out = {busy_sentence(table)};
  const ScenarioRow& first = table.rows.front();
  for (std::size_t r = 1; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    const Side side = side_of(std::vector<const ScenarioRow*>{&first, &row});
    const double here_ms = step_ms(row, side), there_ms = step_ms(first, side);
    const bool same = std::abs(here_ms / there_ms - 1) < kTellable;
    std::string sentence =
        "Is it faster on " + gpus_of(row) + " than on " + std::to_string(first.spec.gpus) + "? " +
        (same                 ? "No, the same: "
         : here_ms < there_ms ? "Yes: "
                              : "No: ") +
        ms(here_ms) + " against " + ms(there_ms) + " (both " + name(side) + "), " +
        (same ? "less than " + to_text(100 * kTellable) + " % apart" : time_against(here_ms, there_ms)) + ".";
    const Concurrency at_once = concurrency(of(row, side).result);
    if (same && at_once.most == 1)
      sentence += " The GPUs take turns, " + fixed(at_once.average, 2) + " at once on average.";
    const std::int64_t here = largest_memory(of(row, side)), there = largest_memory(of(first, side));
    if (here > 0 && there > 0) {
      const std::int64_t most = std::max(here, there);
      sentence += std::string(same && here < there ? " What is gained is memory: the" : " The") +
                  " fullest GPU holds " + memory_like(here, most) + " instead of " + memory_like(there, most) + ".";
    }
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

}  // namespace pdl
