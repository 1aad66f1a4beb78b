#include "sim/engine/order.hpp"

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

}  // namespace pdl
