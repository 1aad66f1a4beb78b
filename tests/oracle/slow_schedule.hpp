// A slow and obvious simulator of a pipeline order with fixed costs, the reference for plan and engine.
//
//   const SlowRun run = run_slowly(order, {.forward = 1, .input = 1, .weight = 1, .transfer = 0});
//   run.step        // 9 for one micro-batch on 4 workers under zb-h1
//
// A worker does its operations in their order, each as soon as the one before has ended and what it needs is there. A
// result takes `transfer` on the link from its worker to another and no time on the same one. A link carries one result
// after another; no worker is occupied meanwhile, and sends wait for nobody. Times are whole numbers of any unit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

/// Of one stage and micro-batch; a whole backward costs input + weight.
struct SlowCosts {
  std::int64_t forward = 1;
  std::int64_t input = 1;
  std::int64_t weight = 1;
  std::int64_t transfer = 0;
};

struct SlowRun {
  bool finished = false;  // false: every worker waits for another
  std::int64_t step = 0;
  std::vector<std::int64_t> starts, ends, work;  // by worker: first start, last end, sum of its operations
};

inline std::int64_t slow_cost(OperationKind kind, const SlowCosts& costs) {
  switch (kind) {
    case OperationKind::forward: return costs.forward;
    case OperationKind::backward: return costs.input + costs.weight;
    case OperationKind::backward_input: return costs.input;
    case OperationKind::backward_weight: return costs.weight;
    default: return 0;
  }
}

/// What was made, of which stage and micro-batch.
enum class SlowResult { activation, gradient };

inline SlowRun run_slowly(const PipelineOrder& order, const SlowCosts& costs) {
  std::map<std::tuple<SlowResult, std::int32_t, std::int32_t>, std::int64_t> made, arrived;  // when; where it was sent
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> link_free;                   // from worker, to worker
  const std::size_t workers = order.workers.size();
  const std::int32_t last_stage = order.shape.stages() - 1;
  std::vector<std::size_t> next(workers, 0);
  SlowRun run{false, 0, std::vector<std::int64_t>(workers, -1), std::vector<std::int64_t>(workers, 0),
              std::vector<std::int64_t>(workers, 0)};

  const auto worker_of = [&](std::int32_t stage) {
    return worker_of_stage(order.placement, order.shape.workers, stage);
  };
  // When a worker has the result of a stage: -1 if it was not made yet.
  const auto there = [&](SlowResult result, std::int32_t stage, std::int32_t microbatch, std::size_t worker) {
    const auto& when = worker_of(stage) == static_cast<std::int32_t>(worker) ? made : arrived;
    const auto found = when.find({result, stage, microbatch});
    return found == when.end() ? std::int64_t{-1} : found->second;
  };
  const auto make = [&](SlowResult result, std::int32_t stage, std::int32_t microbatch, std::int64_t now) {
    made[{result, stage, microbatch}] = now;
    const std::int32_t target = stage + (result == SlowResult::activation ? 1 : -1);
    if (target < 0 || target > last_stage || worker_of(target) == worker_of(stage)) return;
    std::int64_t& free = link_free[{worker_of(stage), worker_of(target)}];
    arrived[{result, stage, microbatch}] = free = std::max(free, now) + costs.transfer;
  };
  const auto ready = [&](const Operation& o, std::size_t w) {
    if (o.kind == OperationKind::forward) {
      return o.stage == 0 ? std::int64_t{0} : there(SlowResult::activation, o.stage - 1, o.microbatch, w);
    }
    const std::int64_t own =
        there(o.kind == OperationKind::backward_weight ? SlowResult::gradient : SlowResult::activation, o.stage,
              o.microbatch, w);
    if (o.kind == OperationKind::backward_weight || o.stage == last_stage || own < 0) return own;
    const std::int64_t from_next = there(SlowResult::gradient, o.stage + 1, o.microbatch, w);
    return from_next < 0 ? from_next : std::max(own, from_next);
  };

  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t w = 0; w < workers; ++w) {
      if (next[w] == order.workers[w].size()) continue;
      const Operation& o = order.workers[w][next[w]];
      const std::int64_t when = ready(o, w);
      if (when < 0) continue;
      const std::int64_t start = std::max(when, run.ends[w]);
      if (run.starts[w] < 0) run.starts[w] = start;
      run.ends[w] = start + slow_cost(o.kind, costs);
      run.work[w] += slow_cost(o.kind, costs);
      if (o.kind == OperationKind::forward) make(SlowResult::activation, o.stage, o.microbatch, run.ends[w]);
      if (o.kind == OperationKind::backward || o.kind == OperationKind::backward_input) {
        make(SlowResult::gradient, o.stage, o.microbatch, run.ends[w]);
      }
      ++next[w];
      progress = true;
    }
  }
  run.finished = true;
  for (std::size_t w = 0; w < workers; ++w) {
    run.finished = run.finished && next[w] == order.workers[w].size();
    run.step = std::max(run.step, run.ends[w]);
  }
  return run;
}

/// What is wrong with an order, "" if nothing: each stage and micro-batch has F once, then B once or I once and W once
/// after it, all on the worker of the stage.
inline std::string incompleteness(const PipelineOrder& order) {
  // By stage and micro-batch, what was done so far: "F", "FI", "FIW", "FB".
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> done;
  for (std::size_t w = 0; w < order.workers.size(); ++w) {
    for (const Operation& o : order.workers[w]) {
      const std::string name = action_name(o.kind, o.stage, o.microbatch);
      if (worker_of_stage(order.placement, order.shape.workers, o.stage) != static_cast<std::int32_t>(w)) {
        return name + " on worker " + std::to_string(w);
      }
      std::string& text = done[{o.stage, o.microbatch}];
      text += o.kind == OperationKind::forward          ? "F"
              : o.kind == OperationKind::backward       ? "B"
              : o.kind == OperationKind::backward_input ? "I"
                                                        : "W";
      if (text != "F" && text != "FB" && text != "FI" && text != "FIW") return name + " makes " + text;
    }
  }
  for (std::int32_t stage = 0; stage < order.shape.stages(); ++stage) {
    for (std::int32_t m = 0; m < order.shape.microbatches; ++m) {
      const std::string& text = done[{stage, m}];
      if (text != "FB" && text != "FIW") {
        return "stage " + std::to_string(stage) + " micro-batch " + std::to_string(m) + " has only " + text;
      }
    }
  }
  const auto wanted =
      static_cast<std::size_t>(order.shape.stages()) * static_cast<std::size_t>(order.shape.microbatches);
  return done.size() == wanted ? "" : "operations of micro-batches or stages that do not exist";
}

/// No order of these operations is faster: the work of the busiest worker, and one micro-batch through all stages and
/// back. `whole_backwards`: a gradient goes on only when the weight gradient is made, too.
inline std::int64_t lower_bound(const PipelineOrder& order, const SlowCosts& costs, const SlowRun& run,
                                bool whole_backwards) {
  const std::int64_t weight = costs.weight;
  std::int64_t chain = weight;  // the last weight gradient comes after everything else of its micro-batch
  for (std::int32_t stage = 0; stage < order.shape.stages(); ++stage) {
    chain += costs.forward + costs.input;
    if (whole_backwards && stage > 0) chain += weight;
    const auto worker = [&](std::int32_t s) { return worker_of_stage(order.placement, order.shape.workers, s); };
    if (stage > 0 && worker(stage) != worker(stage - 1)) chain += 2 * costs.transfer;
  }
  return std::max(chain, *std::max_element(run.work.begin(), run.work.end()));
}

}  // namespace pdl
