// The discrete-event engine: a graph of tasks and their costs in, start and end of every task out.
//
//   std::vector<TaskTimes> times = run_graph(plan.graph, costs);     // costs[w] belongs to plan.graph.works[w]
//
// Integer nanoseconds; ties by task id; the same input gives the same bytes.
//
// Where collectives run beside compute (SharedMultiprocessors), the compute tasks of those GPUs run kernel by kernel,
// their thread blocks on multiprocessors (sim/engine/multiprocessors.hpp): a collective waits for as many as it needs,
// and the next kernel has so many fewer. A collective goes at the pace of the GPU where what runs beside it slows it
// most (KernelCost::slows_collectives), which is looked at again whenever a kernel there begins or ends. Not modelled:
// sharing of links, kernels slowed by a collective's use of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

/// Throws CannotRun("deadlock: ...") naming each task of one cycle and what it waits for, if not every task can finish.
/// `shared`: kernels by work, for graphs with collectives on streams of their own; null or a count of 0: nothing is
/// shared. `delays_ns`: by task, how long its host does something else before it begins to issue it; empty: nothing.
std::vector<TaskTimes> run_graph(const TaskGraph& graph, std::span<const TaskCost> costs,
                                 const SharedMultiprocessors* shared = nullptr,
                                 std::span<const std::int64_t> delays_ns = {});

/// The same times by a plain sweep in topological order: the slow, obvious reference (tests), and the floor for speed.
std::vector<TaskTimes> sweep_graph(const TaskGraph& graph, std::span<const TaskCost> costs,
                                   std::span<const std::int64_t> delays_ns = {});

}  // namespace pdl
