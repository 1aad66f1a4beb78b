// The engine where collectives run beside compute and both take multiprocessors of the GPUs: a queue of events.
//
// The compute tasks of those GPUs run kernel by kernel, their thread blocks on multiprocessors (multiprocessors.hpp): a
// collective waits for as many as it needs, and the next kernel has so many fewer. A collective goes at the pace of the
// GPU where what runs beside it slows it most (KernelCost::slows_collectives), which is looked at again whenever a
// kernel there begins or ends.
//
// A message between stages that is a kernel begins a launch latency after what it waits for has ended on another
// stream: the event must reach it first. The next kernel of the compute stream, if it has been issued, is there before
// it, and its blocks take the multiprocessors first. (Measured on 2 x H200, traces of 2026-11-30: where both wait for
// the same product of .74 ms, the next one runs, and the message begins .49 ms later. All-reduces of DDP, between which
// and the backward stands their bucket's copy, are better predicted without.)
//
// Not modelled: sharing of links, kernels slowed by a collective's use of memory.
#pragma once

#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

/// `issue_ns`: by task, when its host begins to issue it; empty: hosts take no time. Throws CannotRun for a deadlock.
std::vector<TaskTimes> run_at_shared_rates(const TaskGraph& graph, std::span<const TaskCost> costs,
                                           const SharedMultiprocessors& shared, std::span<const std::int64_t> issue_ns);

}  // namespace pdl
