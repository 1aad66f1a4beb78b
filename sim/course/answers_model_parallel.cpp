// Homework 3: a model split over GPUs by its layers.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/pipeline_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
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

bool has_map_of_rule(const ScenarioRow& row) {
  for (const Stage& stage : row.predicted.result.stages) {
    for (std::int32_t i = stage.first_layer; i < stage.first_layer + stage.layer_count; ++i) {
      if (gpu_by_rule(i, row.spec.depth, row.spec.gpus) != only_worker(stage)) return false;
    }
  }
  return true;
}

/// All rows, those with least of the varied setting first.
template <typename Key>
Series sorted_rows(const Tables& tables, const std::string& varied, Key key) {
  Series series = whole_series(tables, {varied}).front();
  std::stable_sort(series.rows.begin(), series.rows.end(), [&](auto* a, auto* b) { return key(*a) < key(*b); });
  return series;
}

Series by_gpus(const Tables& tables) {
  return sorted_rows(tables, "gpus", [](const ScenarioRow& row) { return row.spec.gpus; });
}
Series by_depth(const Tables& tables) {
  return sorted_rows(tables, "depth", [](const ScenarioRow& row) { return row.spec.depth; });
}

std::string layer_word(const std::string& range) {
  if (range.find_first_not_of("0123456789-, ") != std::string::npos) return range;  // "block 0 to block 2"
  return (range.find_first_of("-,") == std::string::npos ? "layer " : "layers ") + range;
}

/// "at most 1 of 5 GPUs computes at once, and each is busy 18.8 to 20.5 % of the step"
std::string turns_text(const EvaluatedRun& run) {
  return at_once_text(run) + ", and each is busy " + busy_range(run) + " of the step";
}

std::string faster_text(const Series& series, const ScenarioRow& few, const ScenarioRow& many) {
  const double few_ms = step_ms(series, few), many_ms = step_ms(series, many);
  const std::string times =
      ms(many_ms) + " on " + gpus_of(many) + ", " + ms(few_ms) + " on " + std::to_string(few.spec.gpus);
  if (std::abs(many_ms / few_ms - 1) < kTellable) return "It does not get faster, " + times;
  return (many_ms < few_ms ? "It gets faster, " : "It gets slower, ") + times;
}

/// Of a comparison of predictions: "; measured: 318.31 ms on 2 GPUs".
std::string measured_beside(const Series& series) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows) {
    if (series.side == Side::predicted && row->measured)
      items.push_back(ms(step_ms(*row, Side::measured)) + " on " + gpus_of(*row));
  }
  return items.empty() ? "" : "; measured: " + listed(items);
}

}  // namespace

std::string hw3_1_layers(const Tables& tables) {
  const ScenarioRow& row = tables.front().rows.front();
  std::vector<std::string> items;
  const std::vector<std::string> ranges = layer_ranges_of_gpus(row.predicted.result);
  for (std::size_t g = 0; g < ranges.size(); ++g)
    items.push_back("GPU " + std::to_string(g) + " holds " + layer_word(ranges[g]));
  return listed(items) + ", of " + std::to_string(row.spec.depth) +
         " (the plan, which predicted and measured runs share).";
}

std::string hw3_1_where_data_moves(const Tables& tables) {
  const Series series = series_of_all(tables);
  const ScenarioRow& row = *series.rows.front();
  const EvaluatedRun& run = run_of(series, row);
  std::vector<std::string> places;
  for (const Stage& stage : run.result.stages) {
    if (stage.first_layer > 0)
      places.push_back(layer_name(row.spec.model, stage.first_layer) + " on GPU " + std::to_string(only_worker(stage)));
  }
  if (places.empty()) return "Nowhere: one GPU holds all layers.";
  const ForwardTransfers forward = forward_transfers(run.result);
  return "At .to(layer_device) in front of " + listed(places) + ", " +
         (forward.count == 1 ? "once" : count_of(forward.count, "time")) + " in a forward pass, " +
         decimal_bytes(forward.bytes) + "; the gradient moves back as often in the backward pass. " +
         "The GPUs take turns: " + turns_text(run) + " of " + ms(step_ms(series, row)) + " (" + source_of(series) +
         ").";
}

std::string hw3_2_experiment(const Tables& tables) {
  const Series series = by_depth(tables);
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows)
    items.push_back(count_of(row->spec.depth, "layer") + " " + ms(step_ms(series, *row)));
  return listed(items) + " (" + source_of(series) + ").";
}

std::string hw3_2_is_more_faster(const Tables& tables) {
  const Series series = by_depth(tables);
  const ScenarioRow &least = *series.rows.front(), &most = *series.rows.back();
  if (least.spec.depth == most.spec.depth) return "";
  const bool faster = std::adjacent_find(series.rows.begin(), series.rows.end(), [&](auto* a, auto* b) {
                        return step_ms(series, *b) < step_ms(series, *a);
                      }) != series.rows.end();
  const double depths = static_cast<double>(most.spec.depth) / static_cast<double>(least.spec.depth);
  return std::string(faster ? "In some rows, by less than the host's noise: " : "No: ") + "with " + fixed(depths, 1) +
         " times as many layers the step takes " + fixed(step_ms(series, most) / step_ms(series, least), 2) +
         " times as long (" + source_of(series) +
         "), since each layer adds work and the layers run one after another: " + at_once_text(run_of(series, most)) +
         ".";
}

std::string hw3_3_code(const Tables& tables) {
  std::vector<std::string> items;
  for (const ScenarioRow& row : tables.front().rows) {
    std::string counts;
    for (const GpuMetrics& gpu : row.predicted.metrics.gpus)
      counts += (counts.empty() ? "" : " + ") + std::to_string(gpu.layers);
    items.push_back(counts + " on " + gpus_of(row));
  }
  return "scenarios/python/hw3_3_all_gpus.py spreads the layers over torch.cuda.device_count() GPUs: of " +
         count_of(tables.front().rows.front().spec.depth, "layer") + " " + listed(items) +
         ", in the plans of these rows too.";
}

std::string hw3_3_rule(const Tables& tables) {
  const auto& rows = tables.front().rows;
  const bool holds = std::all_of(rows.begin(), rows.end(), has_map_of_rule);
  return "With q = DEPTH div GPUs and r = DEPTH mod GPUs, layer i is on GPU i div (q + 1) if i < r (q + 1), else on "
         "GPU r + (i - r (q + 1)) div q: the first r GPUs hold one layer more. It gives the map of " +
         std::string(holds ? "all " : "NOT all ") + std::to_string(rows.size()) + " rows.";
}

std::string hw3_4_experiment(const Tables& tables) {
  const Series series = by_gpus(tables);
  std::int64_t most = 0;
  for (const ScenarioRow* row : series.rows) most = std::max(most, largest_memory(row->best()));
  std::vector<std::string> items;
  for (const ScenarioRow* row : series.rows) {
    const std::int64_t bytes = largest_memory(row->best());
    items.push_back(gpus_of(*row) + " " + ms(row->best().result.step_time.median_ms) +
                    (bytes > 0 ? " and " + memory_like(bytes, most) : "") + " (" +
                    name(row->measured ? Side::measured : Side::predicted) + ")");
  }
  return listed(items) + "; the memory is that of the fullest GPU.";
}

std::string hw3_4_are_all_used(const Tables& tables) {
  const Series series = by_gpus(tables);
  const ScenarioRow &few = *series.rows.front(), &many = *series.rows.back();
  if (few.spec.gpus == many.spec.gpus) return "";
  const EvaluatedRun& run = run_of(series, many);
  const std::int64_t here = largest_memory(run), there = largest_memory(run_of(series, few));
  const bool all = concurrency(run.result).most == many.spec.gpus;
  return std::string(all ? "At times all: " : "No: ") + turns_text(run) + ". " + faster_text(series, few, many) +
         (here > 0 && there > here ? "; what more GPUs save is memory, " + memory_like(here, there) + " instead of " +
                                         memory_like(there, there) + " on the fullest GPU"
                                   : "") +
         " (all " + source_of(series) + measured_beside(series) + ").";
}

std::string hw3_5_experiment(const Tables& tables) {
  std::vector<std::string> items;
  for (const ScenarioRow& row : tables.front().rows) {
    const ForwardTransfers forward = forward_transfers(row.predicted.result);
    items.push_back(count_of(forward.count, "move") + " on " + gpus_of(row) + " (" + decimal_bytes(forward.bytes) +
                    ")");
  }
  const ScenarioRow& row = tables.front().rows.front();
  return "It is called " + count_of(row.spec.depth * microbatches_of(row), "time") +
         ", once a layer, and moves data only " + "where the layer before is on another GPU: " + listed(items) +
         "; counted in the plans, which predicted and measured runs share.";
}

std::string hw3_5_growth(const Tables& tables) {
  bool one_less = true;
  for (const ScenarioRow& row : tables.front().rows) {
    one_less = one_less && forward_transfers(row.predicted.result).count == (row.spec.gpus - 1) * microbatches_of(row);
  }
  const ScenarioRow& row = tables.front().rows.back();
  const RunMetrics& metrics = row.predicted.metrics;
  return std::string(one_less ? "With GPUs - 1" : "NOT with GPUs - 1") +
         ": each boundary between two GPUs is crossed once forward and once back, by the whole activation (batch x DIM "
         "x 4 bytes in fp32); on " +
         gpus_of(row) + " that is " + count_of(metrics.transfer_count, "transfer") + " and " +
         decimal_bytes(metrics.transfer_bytes) + " a step (counted in the plan).";
}

}  // namespace pdl
