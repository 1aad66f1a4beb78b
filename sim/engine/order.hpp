// The orders that the graph leaves implicit, made explicit: the next task of the same stream, of the same host, and
// when hosts come to a task.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

/// next[t]: the next task of t's stream, kNone for the last one and for tasks without a stream.
std::vector<TaskId> next_on_stream(const TaskGraph& graph);

/// next[t]: the task that t's host issues after t, kNone for the last one.
std::vector<TaskId> next_on_host(const TaskGraph& graph);

/// False if hosts take no time, so that no task waits for its issue.
bool hosts_matter(std::span<const TaskCost> costs, std::span<const std::int64_t> delays_ns);

/// By task: when its host begins to issue it, from the start of the step. Hosts run ahead of the devices: that depends
/// on issues alone. `delays_ns`: by task, or empty. Throws CannotRun naming a cycle if hosts wait for each other.
std::vector<std::int64_t> issue_times_ns(const TaskGraph& graph, std::span<const TaskCost> costs,
                                         std::span<const std::int64_t> delays_ns);

}  // namespace pdl
