#include "sim/plan/one_thread_step.hpp"

#include "sim/plan/stage_tasks.hpp"

namespace pdl {
namespace {

class OneThreadStep {
 public:
  explicit OneThreadStep(const Plan& plan)
      : run_again_(plan.spec.recompute ? layers_run_again(plan) : std::vector<bool>()),
        tasks_(plan, builder_),
        stages_(static_cast<std::int32_t>(plan.stages.size())) {}

  TaskGraph build(const std::vector<Operation>& operations) && {
    tasks_.add_straggler(0, 0);
    for (const Operation& operation : operations) {
      const bool forward = operation.kind == OperationKind::forward;
      if (!forward) tasks_.add_delay(stages_ - 1, operation.microbatch, 0);
      for (std::int32_t i = 0; i < stages_; ++i) {
        const std::int32_t stage = forward ? i : stages_ - 1 - i;
        if (i > 0) add_joined_copy(forward ? stage - 1 : stage + 1, stage, operation.microbatch);
        add_compute(operation, stage);
      }
    }
    for (std::int32_t stage = 0; stage < stages_; ++stage) tasks_.add_optimizer(stage, 0);
    return std::move(builder_).build(static_cast<std::uint32_t>(stages_), 1);
  }

 private:
  void add_compute(const Operation& operation, std::int32_t stage) {
    if (run_again_.empty() || operation.kind == OperationKind::forward) {
      tasks_.add_compute(task_kind(operation.kind), stage, operation.microbatch, 0);
      return;
    }
    const Stage& whole = tasks_.stage(stage);
    std::uint32_t part = 0;
    for (const BackwardPart& cut :
         backward_parts(run_again_, whole.first_layer, whole.layer_count, stage + 1 == stages_))
      tasks_.add_backward_part(stage, operation.microbatch, 0, cut, part++);
  }

  void add_joined_copy(std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch) {
    const bool forward = to_stage > from_stage;
    const std::uint32_t group = builder_.add_group();
    const auto add = [&](TaskKind kind, std::int32_t stage) {
      const std::int32_t worker = tasks_.worker_of(stage);
      builder_.add_task({tasks_.transfer_work(kind, from_stage, to_stage, microbatch),
                         stream_of(worker, StreamRole::compute, 0), 0, group, worker, stage, microbatch, kind});
    };
    add(forward ? TaskKind::send_forward : TaskKind::send_backward, from_stage);
    add(forward ? TaskKind::receive_forward : TaskKind::receive_backward, to_stage);
  }

  std::vector<bool> run_again_;  // by layer; empty: none is
  TaskGraphBuilder builder_;
  StageTasks tasks_;
  std::int32_t stages_;
};

}  // namespace

TaskGraph one_thread_step(const Plan& plan, const StepOrder& order) {
  return OneThreadStep(plan).build(order.of_worker(0));
}

}  // namespace pdl
