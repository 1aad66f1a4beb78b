#include "sim/plan/gradient_exchange.hpp"

namespace pdl {

GradientExchange::GradientExchange(const Plan& plan, const StageTasks& tasks, TaskGraphBuilder& builder)
    : plan_(plan),
      tasks_(tasks),
      builder_(builder),
      stages_(static_cast<std::int32_t>(std::ssize(plan.stages) / plan.parallel.mesh.dp)),
      reduced_(plan.stages.size(), kNone),
      worker_groups_(static_cast<std::size_t>(stages_), kNone) {}

std::vector<bool> GradientExchange::complete_after(const std::vector<Operation>& operations) {
  std::vector<bool> complete(operations.size(), false);
  if (plan_.parallel.mesh.dp == 1) return complete;
  const std::int32_t in_round = microbatches_of_a_round(plan_);
  still_to_come_.resize(plan_.stages.size(), in_round);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (operation.kind != OperationKind::backward && operation.kind != OperationKind::backward_weight) continue;
    std::int32_t& left = still_to_come_[static_cast<std::size_t>(operation.stage)];
    if (--left > 0) continue;
    left = in_round;
    complete[i] = exchanges_in_round(plan_.spec, operation.microbatch / in_round);
  }
  return complete;
}

std::uint32_t& GradientExchange::group_of(std::int32_t stage_of_replica, std::int64_t round) {
  const std::int64_t rounds = plan_.spec.accum;
  groups_.resize(static_cast<std::size_t>(stages_ * rounds), kNone);
  return groups_[static_cast<std::size_t>(stage_of_replica * rounds + round)];
}

/// Every replica has the stage on the GPU of the same place.
std::uint32_t GradientExchange::worker_group_of(std::int32_t stage_of_replica, std::int32_t worker) {
  std::uint32_t& group = worker_groups_[static_cast<std::size_t>(stage_of_replica)];
  if (group == kNone) group = builder_.add_worker_group(plan_.parallel.mesh.group_along(worker, Dimension::dp));
  return group;
}

void GradientExchange::add(const Operation& operation, std::uint32_t host) {
  const Stage& stage = tasks_.stage(operation.stage);
  if (parameters(plan_.spec.model, stage.first_layer, stage.layer_count) == 0) return;
  const std::int32_t worker = tasks_.worker_of(operation.stage);
  const std::int32_t of_replica = operation.stage % stages_;
  std::uint32_t& group = group_of(of_replica, operation.microbatch / microbatches_of_a_round(plan_));
  if (group == kNone) group = builder_.add_group();
  Work work;
  work.kind = TaskKind::all_reduce;
  work.implementation = implementation_of(plan_.parallel.program);
  work.worker_group = worker_group_of(of_replica, worker);
  tasks_.sizes().set(operation.stage, operation.microbatch, work);
  const TaskId task =
      builder_.add_task({builder_.add_work(work), stream_of(worker, StreamRole::collective, 0), host, group, worker,
                         operation.stage, operation.microbatch, work.kind, static_cast<std::uint32_t>(of_replica)});
  builder_.add_edge(tasks_.last_gradient(operation.stage), task);
  reduced_[static_cast<std::size_t>(operation.stage)] = task;
}

void GradientExchange::wait(std::int32_t stage, TaskId task) {
  TaskId& reduced = reduced_[static_cast<std::size_t>(stage)];
  if (reduced != kNone) builder_.add_edge(reduced, task);
  reduced = kNone;
}

}  // namespace pdl
