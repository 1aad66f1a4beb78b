// The two orders that the graph leaves implicit, made explicit: the next task of the same stream, of the same host.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/task_graph.hpp"

namespace pdl {

/// next[t]: the next task of t's stream, kNone for the last one and for tasks without a stream.
std::vector<TaskId> next_on_stream(const TaskGraph& graph);

/// next[t]: the task that t's host issues after t, kNone for the last one.
std::vector<TaskId> next_on_host(const TaskGraph& graph);

}  // namespace pdl
