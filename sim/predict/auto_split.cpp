#include "sim/predict/auto_split.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/plan/plan.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/split.hpp"

namespace pdl {
namespace {

/// By layer, from which a part may begin: in how few parts the layers from there on can be with no sum above `most`.
/// No cost is above it.
std::vector<std::int64_t> fewest_parts(std::span<const std::int64_t> costs, std::int64_t most) {
  const std::size_t count = costs.size();
  std::vector<std::int64_t> parts(count + 1, 0);
  std::size_t end = count;  // of the part that begins at `first`
  std::int64_t sum = 0;
  for (std::size_t first = count; first-- > 0;) {
    sum += costs[first];
    while (sum > most) sum -= costs[--end];
    parts[first] = 1 + parts[end];
  }
  return parts;
}

/// The least largest sum. A split in fewer parts can be cut further.
std::int64_t least_largest(std::span<const std::int64_t> costs, std::int64_t parts) {
  std::int64_t low = *std::max_element(costs.begin(), costs.end());
  std::int64_t high = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (fewest_parts(costs, middle).front() <= parts) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// One micro-batch through all layers, each a stage of its own on one GPU, as the program of the spec computes them.
/// One thread for all GPUs computes by autograd, as PyTorch's pipelines do.
RunSpec layer_by_layer(const RunSpec& spec) {
  RunSpec one = spec;
  const auto layers = static_cast<std::int32_t>(spec.model.layers.size());
  one.split = {};
  one.strategy = Strategy::pp;
  one.gpus = one.dp = one.hosts = one.accum = 1;
  one.chunks = layers;
  one.microbatches = 1;
  one.recompute = false;
  one.straggler.reset();
  one.delay_ms = 0;
  const std::vector<std::int64_t> rows = microbatch_rows(spec);
  one.batch = rows[rows.size() / 2];  // the last one may be smaller
  if (resolve(spec).program == Program::one_thread) {
    one.program = ProgramOf::pytorch;
    one.workers = Workers::process;
    one.transport = Transport::nccl;
  }
  auto file = std::make_shared<ScheduleFile>();
  file->order = {Placement::loop, {1, layers, 1}, {{}}};
  for (std::int32_t l = 0; l < layers; ++l) file->order.workers[0].push_back({OperationKind::forward, l, 0});
  for (std::int32_t l = layers; l-- > 0;) file->order.workers[0].push_back({OperationKind::backward, l, 0});
  one.schedule_file = std::move(file);
  return one;
}

}  // namespace

bool needs_split(const RunSpec& spec) {
  return spec.split.is_auto && spec.split.layers.empty();
}

RunSpec evenly_split(RunSpec spec) {
  if (needs_split(spec)) spec.split = {};
  return spec;
}

std::vector<std::int64_t> layer_costs_ns(const RunSpec& spec, LayerFamilies& families) {
  const Plan plan = make_plan(layer_by_layer(spec));
  const PricedWork priced = price_at_full_clock(plan, &families);
  std::vector<std::int64_t> costs(spec.model.layers.size(), 0);
  for (const Task& task : plan.graph.tasks) {
    if (task.kind == TaskKind::forward || task.kind == TaskKind::backward)
      costs[static_cast<std::size_t>(task.stage)] += priced.costs[task.work].device_ns;
  }
  return costs;
}

namespace {

using LayersOfStages = std::vector<std::int64_t>;

Plan plan_with(const RunSpec& spec, const LayersOfStages& layers) {
  RunSpec with = spec;
  with.split.layers = layers;
  return make_plan(with);
}

std::int64_t predicted_ns(const RunSpec& spec, const LayersOfStages& layers, LayerFamilies& families) {
  return step_ns(step_of_plan(plan_with(spec, layers), &families).timeline, steps_overlap(spec));
}

/// The same where no collective takes multiprocessors, no host pauses and the clock stays full: known ten times sooner,
/// and splits stand beside each other much as they do in full.
std::int64_t undisturbed_ns(const RunSpec& spec, const LayersOfStages& layers, LayerFamilies& families) {
  const Plan plan = plan_with(spec, layers);
  const PricedWork priced = price_at_full_clock(plan, &families);
  Timeline timeline;
  timeline.workers = static_cast<std::int32_t>(plan.graph.workers);
  timeline.stages = static_cast<std::int32_t>(plan.stages.size());
  timeline.step_ns = run_graph(plan.graph, priced.costs, {}, timeline.spans) + priced.step_overhead_ns;
  return step_ns(timeline, steps_overlap(spec));
}

/// From `best`, a layer is moved from one stage to the next or back as long as undisturbed steps get shorter by it: by
/// half a per cent, as less is not worth stages that are less even, whose hosts or memory may bind them.
LayersOfStages climb(const RunSpec& spec, LayersOfStages best, std::size_t most_tried, LayerFamilies& families) {
  constexpr std::int64_t kWorthwhile = 200;
  std::int64_t best_ns = undisturbed_ns(spec, best, families);
  std::set<LayersOfStages> tried{best};
  for (LayersOfStages from; from != best && tried.size() < most_tried;) {
    from = best;
    for (std::size_t s = 0; s + 1 < from.size() && tried.size() < most_tried; ++s) {
      for (const int direction : {1, -1}) {
        LayersOfStages moved = from;
        moved[s] += direction;
        moved[s + 1] -= direction;
        if (moved[s] < 1 || moved[s + 1] < 1 || !tried.insert(moved).second) continue;
        const std::int64_t ns = undisturbed_ns(spec, moved, families);
        if (ns + ns / kWorthwhile >= best_ns) continue;
        best_ns = ns;
        best = moved;
      }
    }
  }
  return best;
}

}  // namespace

RunSpec with_found_split(const RunSpec& spec, LayerFamilies* families) {
  RunSpec with = spec;
  const std::int64_t stages = stage_count(spec);
  const LayersOfStages even = spread(std::ssize(spec.model.layers), stages);
  if (spec.synthetic || stages == 1) {
    with.split.layers = even;
    return with;
  }
  // Undisturbed steps, fewer of long ones: a tenth of a second or so.
  constexpr std::int64_t kTasks = 30'000, kFewest = 6, kMost = 60;
  const std::int64_t tasks = 3 * stages * spec.microbatches * spec.accum;
  const auto most_tried = static_cast<std::size_t>(std::clamp(kTasks / tasks, kFewest, kMost));
  const LayersOfStages smallest = smallest_largest_stage(layer_costs_ns(spec, *families), stages);
  std::int64_t best_ns = INT64_MAX;
  std::set<LayersOfStages> predicted;
  for (const LayersOfStages& layers :
       {even, climb(spec, even, most_tried, *families), climb(spec, smallest, most_tried, *families)}) {
    if (!predicted.insert(layers).second) continue;
    const std::int64_t ns = predicted_ns(spec, layers, *families);
    if (ns >= best_ns) continue;
    best_ns = ns;
    with.split.layers = layers;
  }
  return with;
}

std::vector<std::int64_t> smallest_largest_stage(std::span<const std::int64_t> costs, std::int64_t parts) {
  const std::int64_t most = least_largest(costs, parts);
  const std::vector<std::int64_t> fewest = fewest_parts(costs, most);
  std::vector<std::int64_t> split;
  std::int64_t left = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  std::size_t first = 0;
  for (std::int64_t behind = parts - 1; behind > 0; --behind) {
    const std::size_t last_end = costs.size() - static_cast<std::size_t>(behind);  // a layer for each part behind
    const double mean = static_cast<double>(left) / static_cast<double>(behind + 1);
    std::size_t end = first + 1;
    std::int64_t sum = costs[first];
    while (end < last_end && sum + costs[end] <= most && (fewest[end] > behind || static_cast<double>(sum) < mean)) {
      sum += costs[end++];
    }
    split.push_back(static_cast<std::int64_t>(end - first));
    left -= sum;
    first = end;
  }
  split.push_back(static_cast<std::int64_t>(costs.size() - first));
  return split;
}

}  // namespace pdl
