// The workers that hold the same stage of different replicas: they average its gradients.
//
//   replica_groups(graph)   {{0, {0, 2}}, {1, {1, 3}}}: stage 0 on workers 0 and 2, stage 1 on workers 1 and 3
#pragma once

#include <vector>

#include "sim/plan/task_graph.hpp"

namespace pdl {

struct ReplicaGroup {
  int number = 0;       // the stage within its replica: Task::part
  WorkerGroup workers;  // the plan's; a worker's place is its rank
};

/// Those of the graph's all-reduces, by number.
std::vector<ReplicaGroup> replica_groups(const TaskGraph& graph);

/// The rank of `worker` in `group`; -1 if it is not in it.
int rank_in(const ReplicaGroup& group, int worker);

}  // namespace pdl
