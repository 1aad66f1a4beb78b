#include "sim/engine/order.hpp"

#include <algorithm>

#include "sim/engine/deadlock.hpp"

namespace pdl {
namespace {

template <typename QueueOf>
std::vector<TaskId> next_in_queue(const TaskGraph& graph, std::size_t queues, QueueOf queue_of) {
  std::vector<TaskId> next(graph.tasks.size(), kNone);
  std::vector<TaskId> last(queues, kNone);
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const std::uint32_t queue = queue_of(graph.tasks[id]);
    if (queue == kNone) continue;
    if (last[queue] != kNone) next[last[queue]] = id;
    last[queue] = id;
  }
  return next;
}

}  // namespace

std::vector<TaskId> next_on_stream(const TaskGraph& graph) {
  return next_in_queue(graph, std::size_t{graph.workers} * kStreamsPerWorker,
                       [](const Task& task) { return task.stream; });
}

std::vector<TaskId> next_on_host(const TaskGraph& graph) {
  return next_in_queue(graph, graph.hosts, [](const Task& task) { return task.host; });
}

bool hosts_matter(std::span<const TaskCost> costs, std::span<const std::int64_t> delays_ns) {
  return !delays_ns.empty() || std::any_of(costs.begin(), costs.end(), [](const TaskCost& cost) {
    return cost.span_ns > cost.device_ns || cost.issue_ns > 0;
  });
}

std::vector<std::int64_t> issue_times_ns(const TaskGraph& graph, std::span<const TaskCost> costs,
                                         std::span<const std::int64_t> delays_ns) {
  const std::vector<TaskId> next = next_on_host(graph);
  const auto for_each_after = [&](TaskId task, auto&& visit) {
    if (next[task] != kNone) visit(next[task]);
    for (const TaskId after : graph.edges.after(task)) {
      if (graph.tasks[after].host != graph.tasks[task].host) visit(after);
    }
  };
  std::vector<std::uint32_t> waits_for(graph.tasks.size(), 0);
  for (TaskId task = 0; task < graph.tasks.size(); ++task)
    for_each_after(task, [&](TaskId after) { ++waits_for[after]; });
  std::vector<TaskId> issuable;
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    if (waits_for[task] == 0) issuable.push_back(task);
  }
  std::vector<std::int64_t> begin_ns(graph.tasks.size(), 0);
  std::size_t issued = 0;
  for (; !issuable.empty(); ++issued) {
    const TaskId task = issuable.back();
    issuable.pop_back();
    if (!delays_ns.empty()) begin_ns[task] += delays_ns[task];
    const std::int64_t end_ns = begin_ns[task] + costs[graph.tasks[task].work].issue_ns;
    for_each_after(task, [&](TaskId after) {
      begin_ns[after] = std::max(begin_ns[after], end_ns);
      if (--waits_for[after] == 0) issuable.push_back(after);
    });
  }
  if (issued != graph.tasks.size()) throw_deadlock(graph);
  return begin_ns;
}

}  // namespace pdl
