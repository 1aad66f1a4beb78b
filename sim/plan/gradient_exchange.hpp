// What the replicas of a pipeline do to their gradients: every stage averages them over its replicas as soon as it has
// all of a round.
//
//   mesh dp 2 x pp 2, stage 1 on GPUs 1 and 3:
//
//     GPU 1  compute      .. B1            optimizer         worker group {1, 3}
//            collective         all-reduce                   (Mesh::group_along dp)
//     GPU 3  compute      .. B1            optimizer
//            collective         all-reduce
//
// The all-reduce depends on the last backward of the round; the next backward of the stage, which adds to what is being
// exchanged, and the optimizer depend on it. DDP's buckets are a program of their own (sim/plan/ddp_step.hpp).
#pragma once

#include <vector>

#include "sim/plan/stage_tasks.hpp"

namespace pdl {

class GradientExchange {
 public:
  /// All must outlive this.
  GradientExchange(const Plan& plan, const StageTasks& tasks, TaskGraphBuilder& builder);

  /// For each operation of a worker: after it a stage has all its gradients of a round in which replicas exchange them.
  /// Workers one after another.
  std::vector<bool> complete_after(const std::vector<Operation>& operations);

  /// The all-reduce after that operation.
  void add(const Operation& operation, std::uint32_t host);

  /// `task` uses the gradients of the stage: it waits for their exchange, if there has been one since the last wait.
  void wait(std::int32_t stage, TaskId task);

 private:
  std::uint32_t& group_of(std::int32_t stage_of_replica, std::int64_t round);
  std::uint32_t worker_group_of(std::int32_t stage_of_replica, std::int32_t worker);

  const Plan& plan_;
  const StageTasks& tasks_;
  TaskGraphBuilder& builder_;
  std::int32_t stages_;                       // of a replica
  std::vector<TaskId> reduced_;               // by stage: the exchange of its gradients that nobody has waited for
  std::vector<std::uint32_t> groups_;         // by stage of a replica, and round
  std::vector<std::uint32_t> worker_groups_;  // by stage of a replica
  std::vector<std::int32_t> still_to_come_;   // by stage: backwards of the round that is being added
};

}  // namespace pdl
