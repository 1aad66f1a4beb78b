// Why a graph cannot finish: one cycle of tasks that wait for each other, by name.
//
//   deadlock: worker 0 send 0F2 waits for worker 1 receive 2F2, which waits for worker 1 send 3B0, which waits for ...
#pragma once

#include "sim/plan/task_graph.hpp"

namespace pdl {

/// Throws CannotRun naming the shortest cycle through the lowest task that is on one.
[[noreturn]] void throw_deadlock(const TaskGraph& graph);

}  // namespace pdl
