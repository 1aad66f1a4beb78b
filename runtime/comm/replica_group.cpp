#include "runtime/comm/replica_group.hpp"

#include <algorithm>
#include <map>

namespace pdl {

std::vector<ReplicaGroup> replica_groups(const TaskGraph& graph) {
  std::map<int, const WorkerGroup*> workers;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::all_reduce) workers[task.part] = &worker_group_of(graph, graph.works[task.work]);
  }
  std::vector<ReplicaGroup> groups;
  for (const auto& [number, of_group] : workers) groups.push_back({number, *of_group});
  return groups;
}

int rank_in(const ReplicaGroup& group, int worker) {
  const auto found = std::find(group.workers.begin(), group.workers.end(), worker);
  return found == group.workers.end() ? -1 : static_cast<int>(found - group.workers.begin());
}

}  // namespace pdl
