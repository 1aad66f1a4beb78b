#include "sim/plan/stage_tasks.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/plan/pytorch_pipeline_step.hpp"

namespace pdl {
namespace {

/// Textbook costs have no sizes: there a message takes both ends.
bool ends_by_itself(const Plan& plan, std::int64_t bytes) {
  return !plan.spec.synthetic && plan.spec.transport == Transport::nccl &&
         bytes <= eager_message_bytes(plan.parallel.mesh.pp);
}

}  // namespace

bool is_forward(TaskKind kind) {
  return kind == TaskKind::forward || kind == TaskKind::recompute;
}

TaskKind task_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::forward: return TaskKind::forward;
    case OperationKind::backward: return TaskKind::backward;
    case OperationKind::backward_input: return TaskKind::backward_input;
    case OperationKind::backward_weight: return TaskKind::backward_weight;
    case OperationKind::send_forward: return TaskKind::send_forward;
    case OperationKind::receive_forward: return TaskKind::receive_forward;
    case OperationKind::send_backward: return TaskKind::send_backward;
    case OperationKind::receive_backward: return TaskKind::receive_backward;
  }
  throw std::logic_error("an operation of no kind");
}

StageTasks::StageTasks(const Plan& plan, TaskGraphBuilder& builder)
    : plan_(plan),
      builder_(builder),
      sizes_(plan),
      last_gradient_(plan.stages.size(), kNone),
      cast_in_(plan.stages.size(), -1),
      last_works_(plan.stages.size() * kKindsOfMicrobatch) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    places_.push_back({only_worker(plan.stages[s]), is_first_stage(plan.stages, s), is_last_stage(plan.stages, s)});
}

Work StageTasks::work_of(TaskKind kind, std::int32_t stage_index) const {
  Work work;
  work.kind = kind;
  work.implementation = implementation_of(plan_.parallel.program);
  work.first_layer = stage(stage_index).first_layer;
  work.layer_count = stage(stage_index).layer_count;
  return work;
}

bool StageTasks::casts_are_there(std::int32_t stage, std::int32_t microbatch) {
  if (!is_amp(plan_.spec.dtype)) return false;
  if (plan_.parallel.program == Program::pipeline) return true;
  if (plan_.parallel.program != Program::pytorch_pipeline) return false;
  const std::int32_t round = microbatch / microbatches_of_a_round(plan_);
  return std::exchange(cast_in_[static_cast<std::size_t>(stage)], round) == round;
}

Work StageTasks::compute_work(TaskKind kind, std::int32_t stage, std::int64_t rows, bool again) const {
  Work work = work_of(kind, stage);
  work.implementation = implementation_of_layers(plan_.parallel.program, plan_.spec.dtype);
  work.rows = rows;
  const bool whole_or_input = kind == TaskKind::backward || kind == TaskKind::backward_input;
  work.loss = whole_or_input && is_last(stage);
  work.input_gradient = !(whole_or_input && is_first(stage));
  (is_forward(kind) ? work.casts_are_there : work.accumulate) = again;
  return work;
}

TaskId StageTasks::add_on_compute_stream(TaskKind kind, std::uint32_t work, std::int32_t stage, std::int32_t microbatch,
                                         std::uint32_t host) {
  const std::int32_t worker = worker_of(stage);
  return builder_.add_task(
      {work, stream_of(worker, StreamRole::compute, 0), host, kNone, worker, stage, microbatch, kind});
}

TaskId StageTasks::add_compute(TaskKind kind, std::int32_t stage, std::int32_t microbatch, std::uint32_t host) {
  const std::int64_t rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
  const bool writes_gradients = kind == TaskKind::backward || kind == TaskKind::backward_weight;
  const bool again =
      is_forward(kind) ? casts_are_there(stage, microbatch) : writes_gradients && last_gradient(stage) != kNone;
  LastWork& last = last_work(kind, stage);
  if (last.rows != rows || last.again != again)
    last = {rows, builder_.add_work(compute_work(kind, stage, rows, again)), again};
  const TaskId task = add_on_compute_stream(kind, last.index, stage, microbatch, host);
  if (writes_gradients) last_gradient_[static_cast<std::size_t>(stage)] = task;
  return task;
}

TaskId StageTasks::add_backward_part(std::int32_t stage, std::int32_t microbatch, std::uint32_t host,
                                     const BackwardPart& part_of_backward, std::uint32_t part) {
  const Place& place = places_[static_cast<std::size_t>(stage)];
  const Stage& whole = this->stage(stage);
  TaskId& gradient = last_gradient_[static_cast<std::size_t>(stage)];
  // The parts of a backward write different gradients: what a part adds to is that of an earlier micro-batch.
  const bool adds = part == 0 ? gradient != kNone : parts_add_;
  parts_add_ = adds;
  const std::int64_t rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
  const auto add = [&](Work work) {
    work.first_layer = part_of_backward.first_layer;
    work.layer_count = part_of_backward.layer_count;
    return builder_.add_task({builder_.add_work(work), stream_of(place.worker, StreamRole::compute, 0), host, kNone,
                              place.worker, stage, microbatch, work.kind, part});
  };
  if (part_of_backward.runs_again) add(compute_work(TaskKind::recompute, stage, rows, false));
  Work work = compute_work(TaskKind::backward, stage, rows, adds);
  work.loss = part_of_backward.loss;
  work.input_gradient = !(place.first && part_of_backward.first_layer == whole.first_layer);
  work.same_call = part > 0;
  gradient = add(work);
  return gradient;
}

TaskId StageTasks::add_optimizer(std::int32_t stage, std::uint32_t host, bool same_call) {
  Work work = work_of(TaskKind::optimizer, stage);
  work.same_call = same_call;
  return add_on_compute_stream(TaskKind::optimizer, builder_.add_work(work), stage, -1, host);
}

TaskId StageTasks::add_scaling_of_gradients(std::int32_t stage, std::uint32_t host) {
  const std::uint32_t work = builder_.add_work(work_of(TaskKind::scale_gradients, stage));
  return add_on_compute_stream(TaskKind::scale_gradients, work, stage, -1, host);
}

void StageTasks::add_sleep(std::int32_t stage, std::int32_t microbatch, std::uint32_t host, double ms) {
  builder_.add_task(
      {builder_.add_work(sleep_work(ms)), kNone, host, kNone, worker_of(stage), stage, microbatch, TaskKind::sleep});
}

void StageTasks::add_delay(std::int32_t stage, std::int32_t microbatch, std::uint32_t host) {
  if (plan_.spec.delay_ms > 0) add_sleep(stage, microbatch, host, plan_.spec.delay_ms);
}

void StageTasks::add_straggler(std::int32_t worker, std::uint32_t host) {
  const std::optional<Straggler>& straggler = plan_.spec.straggler;
  if (!straggler || straggler->rank != worker || straggler->ms == 0) return;
  const auto holds = [&](const Stage& stage) { return only_worker(stage) == worker; };
  const auto stage = std::find_if(plan_.stages.begin(), plan_.stages.end(), holds);
  add_sleep(static_cast<std::int32_t>(stage - plan_.stages.begin()), -1, host, straggler->ms);
}

std::uint32_t StageTasks::transfer_work(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage,
                                        std::int32_t microbatch, bool same_call) {
  const std::int64_t rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
  const std::int32_t own_stage = is_send(kind) ? from_stage : to_stage;
  LastWork& last = last_work(kind, own_stage);
  if (last.rows == rows && last.again == same_call) return last.index;
  Work work;
  work.kind = kind;
  work.same_call = same_call;
  work.implementation = implementation_of(plan_.parallel.program);
  work.from_worker = worker_of(from_stage);
  work.to_worker = worker_of(to_stage);
  sizes_.set(own_stage, microbatch, work);
  work.eager =
      is_send(kind) && plan_.parallel.program == Program::pytorch_pipeline && ends_by_itself(plan_, work.bytes);
  last = {rows, builder_.add_work(work), same_call};
  return last.index;
}

}  // namespace pdl
