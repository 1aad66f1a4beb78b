#include "sim/engine/constraints.hpp"

#include "sim/engine/order.hpp"

namespace pdl {

Constraints make_constraints(const TaskGraph& graph, std::span<const TaskCost> costs,
                             std::span<const std::int64_t> delays_ns) {
  Constraints constraints;
  constraints.moments = 3 * static_cast<std::uint32_t>(graph.tasks.size()) + graph.groups;
  const auto add = [&](std::uint32_t before, std::uint32_t after, std::int64_t at_least_ns) {
    constraints.edges.emplace_back(before, after);
    constraints.at_least_ns.push_back(at_least_ns);
  };
  const std::vector<TaskId> stream = next_on_stream(graph);
  const std::vector<TaskId> host = next_on_host(graph);
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    const TaskCost cost = costs.empty() ? TaskCost{} : costs[graph.tasks[task].work];
    const std::int64_t delay_ns = delays_ns.empty() ? 0 : delays_ns[task];
    add(issue_moment(task), start_moment(task), delay_ns + cost.first_launch_ns);
    add(issue_moment(task), finish_moment(task), delay_ns + cost.span_ns);
    const std::uint32_t group = graph.tasks[task].group;
    if (group == kNone) {
      add(start_moment(task), finish_moment(task), cost.device_ns);
    } else if (graph.works[graph.tasks[task].work].eager) {
      add(start_moment(task), together_moment(graph, group), 0);
      add(start_moment(task), finish_moment(task), cost.device_ns);
    } else {
      add(start_moment(task), together_moment(graph, group), 0);
      add(together_moment(graph, group), finish_moment(task), cost.device_ns);
    }
    if (host[task] != kNone) add(issue_moment(task), issue_moment(host[task]), delay_ns + cost.issue_ns);
    if (stream[task] != kNone) add(finish_moment(task), start_moment(stream[task]), 0);
    for (const TaskId after : graph.edges.after(task)) {
      add(finish_moment(task), start_moment(after), 0);
      if (graph.tasks[after].host == graph.tasks[task].host) continue;
      add(issue_moment(task), issue_moment(after), delay_ns + cost.issue_ns);
    }
  }
  return constraints;
}

}  // namespace pdl
