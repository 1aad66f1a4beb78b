// The same physics as the engine's loop, written as constraints: a graph of moments, each edge "no earlier than".
//
//   moments of a task:  issue -> start -> finish        of a group:  together
//   issue(t)  + first_launch  <= start(t)               issue(t) + issue_ns <= issue(next task of the host)
//   start(t)  + device_ns     <= finish(t)              issue(t) + span_ns  <= finish(t)
//   finish(a)                 <= start(b)               for an edge a -> b, and for the next task of the stream
//   issue(a)  + issue_ns      <= issue(b)               for an edge a -> b between two hosts
//   start(t)                  <= together(g)            together(g) + device_ns <= finish(t), for t in group g
//                                                       (of an eager send start(t) + device_ns <= finish(t))
//
// A host that delays a task adds that to all that comes after issue(t).
// The earliest time of every moment is the longest path to it; a cycle is a deadlock.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

struct Constraints {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<std::int64_t> at_least_ns;  // one an edge
  std::uint32_t moments = 0;
};

inline std::uint32_t issue_moment(TaskId task) {
  return 3 * task;
}
inline std::uint32_t start_moment(TaskId task) {
  return 3 * task + 1;
}
inline std::uint32_t finish_moment(TaskId task) {
  return 3 * task + 2;
}
inline std::uint32_t together_moment(const TaskGraph& graph, std::uint32_t group) {
  return 3 * static_cast<std::uint32_t>(graph.tasks.size()) + group;
}

/// `costs` empty: every weight 0. `delays_ns`: by task, or empty.
Constraints make_constraints(const TaskGraph& graph, std::span<const TaskCost> costs,
                             std::span<const std::int64_t> delays_ns = {});

}  // namespace pdl
