// Which tasks of a step their hosts begin late, because they have paused (sim/cost/host_pauses.hpp).
//
//   one GPU, the step takes 10 ms, its host 1 ms, --delay-ms 0:
//
//   host  | optimizer | waits 9 ms ...... | late | F | B | optimizer | waits 9 ms ...... | late | F ...
//   GPU     ... the step before ..........|        F  B  optimizer ......................|
//
// The step is one of many: what came before its first task is the end of the same step. Units: nanoseconds. Not here:
// hosts that wait for each other inside a step, or for GPUs inside a step but in GradScaler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/host_pauses.hpp"
#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

/// By task, for run(): how much later than its host is free it begins to be issued, in a step that takes `step_ns`.
std::vector<std::int64_t> host_delays_ns(const TaskGraph& graph, std::span<const TaskCost> costs,
                                         const HostPauses& pauses, std::int64_t step_ns);

}  // namespace pdl
