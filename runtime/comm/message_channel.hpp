// A way that messages take from one worker to another. Its messages arrive in the order in which they were sent, and
// those of different channels do not wait for each other.
//
//   channel_of(graph, task)   {0, 1, 2}: activations from worker 0 to worker 1 on lane 1
#pragma once

#include <compare>

#include "sim/plan/task_graph.hpp"

namespace pdl {

/// Between two workers there is a channel for each lane (sim/plan/task_graph.hpp) and direction.
struct MessageChannel {
  int from = 0;  // workers
  int to = 0;
  int number = 0;  // 2 * lane + (0: activations, 1: gradients)
  auto operator<=>(const MessageChannel&) const = default;
};

/// Of a send or receive: the same at both ends.
MessageChannel channel_of(const TaskGraph& graph, const Task& transfer);

}  // namespace pdl
