// The engine where nothing is shared: what a task takes does not depend on what runs beside it, so one pass in
// topological order gives all times.
//
//   0 and 1 on one stream, 2 on another, edge 0 -> 2:      free 0 | 0 ends: frees 1 and 2 | 2 ends | 1 ends
//
// Which free task is next changes no time. The newest is: what it needs is still in the processor's caches.
// Units: nanoseconds. Not here: hosts, which are ahead of the devices (order.hpp, issue_times_ns).
#pragma once

#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/engine/run.hpp"

namespace pdl {

/// Makes `spans`, one a task. `issue_ns`: by task, when its host begins to issue it; empty: hosts take no time, and
/// only then a second run may be asked for in the same pass. Returns the last end. Throws CannotRun for a deadlock,
/// which leaves no spans.
std::int64_t run_at_fixed_rates(const TaskGraph& graph, std::span<const TaskCost> costs,
                                std::span<const std::int64_t> issue_ns, std::vector<Span>& spans, LengthOfRun* second);

}  // namespace pdl
