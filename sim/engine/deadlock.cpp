#include "sim/engine/deadlock.hpp"

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <deque>
#include <string>
#include <vector>

#include "sim/engine/constraints.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

using Moments = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                   boost::no_property, std::uint32_t, std::uint32_t>;

/// The moments of the shortest cycle from `first` back to it, inside its strong component.
std::vector<std::uint32_t> shortest_cycle(const Moments& moments, const std::vector<std::uint32_t>& component,
                                          std::uint32_t first) {
  std::vector<std::uint32_t> came_from(boost::num_vertices(moments), kNone);
  std::deque<std::uint32_t> open = {first};
  while (!open.empty()) {
    const std::uint32_t moment = open.front();
    open.pop_front();
    for (auto [edge, end] = boost::out_edges(moment, moments); edge != end; ++edge) {
      const auto after = static_cast<std::uint32_t>(boost::target(*edge, moments));
      if (component[after] != component[first] || came_from[after] != kNone) continue;
      came_from[after] = moment;
      if (after == first) open.clear();
      if (after == first) break;
      open.push_back(after);
    }
  }
  std::vector<std::uint32_t> cycle = {first};
  for (std::uint32_t m = came_from[first]; m != first; m = came_from[m]) cycle.push_back(m);
  return cycle;
}

}  // namespace

void throw_deadlock(const TaskGraph& graph) {
  const Constraints constraints = make_constraints(graph, {});
  const Moments moments(boost::edges_are_unsorted_multi_pass, constraints.edges.begin(), constraints.edges.end(),
                        constraints.moments);
  std::vector<std::uint32_t> component(constraints.moments);
  const std::uint32_t components = boost::strong_components(
      moments, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, moments)));
  std::vector<std::uint32_t> size(components, 0);
  for (const std::uint32_t c : component) ++size[c];

  const auto tasks = static_cast<TaskId>(graph.tasks.size());
  const auto name = [&](TaskId id) {
    const Task& task = graph.tasks[id];
    return "worker " + std::to_string(task.worker) + " " + task_action(task);
  };
  for (TaskId task = 0; task < tasks; ++task) {
    const std::uint32_t first = start_moment(task);
    if (size[component[first]] < 2) continue;
    std::string text = "deadlock: ";
    TaskId last = kNone;
    // Against the direction of the edges: each one waits for the next.
    for (const std::uint32_t moment : shortest_cycle(moments, component, first)) {
      const TaskId of = moment / 3;
      if (moment >= 3 * tasks || of == last) continue;
      text += (last == kNone ? "" : last == task ? " waits for " : ", which waits for ") + name(of);
      last = of;
    }
    throw CannotRun(text + (last == task ? " waits for itself" : ", which waits for " + name(task)));
  }
  throw CannotRun("deadlock: tasks are left that wait for a group that never completes");
}

}  // namespace pdl
