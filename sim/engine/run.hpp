// The discrete-event engine: a graph of tasks and their costs in, start and end of every task out.
//
//   std::vector<TaskTimes> times = run_graph(plan.graph, costs);     // costs[w] belongs to plan.graph.works[w]
//
//   run_graph(plan.graph, costs, {}, timeline.spans);                // the same as the spans of a timeline
//
// Integer nanoseconds; ties by task id; the same input gives the same bytes.
//
// Where nothing is shared, when a task starts depends on the tasks before it alone: one pass in topological order
// (fixed_rates.hpp). Where collectives run beside compute (SharedMultiprocessors), the compute tasks of those GPUs run
// kernel by kernel, their thread blocks on multiprocessors, and a queue of events says what happens next
// (shared_rates.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

/// What a run may have beside the costs of its work. Both must outlive the run.
struct RunConditions {
  /// Kernels by work, of graphs with collectives on streams of their own; null or a count of 0: nothing is shared.
  const SharedMultiprocessors* shared = nullptr;
  /// By task: how long its host does something else before it begins to issue it; empty: nothing.
  std::span<const std::int64_t> delays_ns = {};
};

/// A second run of the same graph, of which only the length is asked: no hosts, nothing is shared.
struct LengthOfRun {
  std::vector<std::int64_t> device_ns;  // by work: what it takes in the second run
  bool by_worker = false;               // longest_worker_ns is asked for
  // Out:
  std::int64_t last_end_ns = 0;
  std::int64_t longest_worker_ns = 0;  // if by_worker: from the first start to the last end of a task of the worker
};

/// Throws CannotRun("deadlock: ...") naming each task of one cycle and what it waits for, if not every task can finish.
std::vector<TaskTimes> run_graph(const TaskGraph& graph, std::span<const TaskCost> costs,
                                 const RunConditions& conditions = {});

/// The same as `spans`, one a task, whatever they were. `second` (may be null) is run beside it, in the same pass where
/// that can be. Returns the last end of a task.
std::int64_t run_graph(const TaskGraph& graph, std::span<const TaskCost> costs, const RunConditions& conditions,
                       std::vector<Span>& spans, LengthOfRun* second = nullptr);

}  // namespace pdl
