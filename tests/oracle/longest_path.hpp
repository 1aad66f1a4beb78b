// When tasks run where nothing is shared, slowly and obviously: the engine's physics as constraints between moments
// (sim/engine/constraints.hpp), and of every moment the longest path to it.
//
//   longest_path_times(plan.graph, costs) == run_graph(plan.graph, costs)
//
// A moment is known when all moments before it are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/constraints.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

/// Throws CannotRun for a deadlock: moments that are never known.
inline std::vector<TaskTimes> longest_path_times(const TaskGraph& graph, std::span<const TaskCost> costs,
                                                 std::span<const std::int64_t> delays_ns = {}) {
  const Constraints constraints = make_constraints(graph, costs, delays_ns);
  std::vector<std::uint32_t> waits_for(constraints.moments, 0);
  for (const auto& [before, after] : constraints.edges) ++waits_for[after];
  std::vector<std::vector<std::size_t>> edges_from(constraints.moments);
  for (std::size_t e = 0; e < constraints.edges.size(); ++e) edges_from[constraints.edges[e].first].push_back(e);
  std::vector<std::uint32_t> known;
  for (std::uint32_t moment = 0; moment < constraints.moments; ++moment) {
    if (waits_for[moment] == 0) known.push_back(moment);
  }
  std::vector<std::int64_t> earliest_ns(constraints.moments, 0);
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (const std::size_t e : edges_from[known[i]]) {
      const std::uint32_t after = constraints.edges[e].second;
      earliest_ns[after] = std::max(earliest_ns[after], earliest_ns[known[i]] + constraints.at_least_ns[e]);
      if (--waits_for[after] == 0) known.push_back(after);
    }
  }
  if (known.size() != constraints.moments) throw_deadlock(graph);
  std::vector<TaskTimes> times(graph.tasks.size());
  for (TaskId task = 0; task < times.size(); ++task)
    times[task] = {earliest_ns[start_moment(task)], earliest_ns[finish_moment(task)]};
  return times;
}

}  // namespace pdl
