#include "sim/memory/pytorch_process.hpp"

#include <utility>

namespace pdl {
namespace {

using enum MemoryCategory;

std::int32_t end_of(const Stage& stage) {
  return stage.first_layer + stage.layer_count;
}

}  // namespace

std::int64_t receive_buffer_bytes(const Replay& replay, std::size_t s) {
  const Plan& plan = replay.plan;
  const Stage& stage = plan.stages[s];
  std::int64_t bytes = 0;
  for (std::int32_t m = 0; m < microbatches_of_a_round(plan); ++m) {
    const std::int64_t rows = plan.microbatch_rows[static_cast<std::size_t>(m)];
    if (!is_first_stage(plan.stages, s)) bytes += replay.activation_bytes(rows, stage.first_layer);
    if (!is_last_stage(plan.stages, s)) bytes += replay.activation_bytes(rows, stage.first_layer + stage.layer_count);
  }
  return bytes;
}

PytorchProcess::PytorchProcess(const Replay& replay, GpuMemory& memory)
    : replay_(replay), plan_(replay.plan), memory_(memory), keeps_sent_(plan_.spec.schedule == "1f1b") {}

void PytorchProcess::add(TaskId id, const Task& task, const Work& work, std::int64_t loss_before) {
  const auto s = static_cast<std::size_t>(task.stage);
  Level level{memory_, id};
  if (task.microbatch >= 0) {
    const std::int32_t round = task.microbatch / microbatches_of_a_round(plan_);
    if (std::exchange(round_, round) != round) end_round(level);
  }
  switch (task.kind) {
    case TaskKind::forward: forward(s, work, level); break;
    case TaskKind::send_backward: send_backward(task, level); break;
    case TaskKind::backward: backward(s, work, level); break;
    case TaskKind::backward_input:
      input_backward(s, work, level);
      split_ = task.stage;
      split_microbatch_ = task.microbatch;
      break;
    case TaskKind::backward_weight: weight_backward(s, work, level); break;
    case TaskKind::optimizer:
      end_round(level);
      optimizer(s, loss_before, level);
      break;
    default: break;
  }
}

std::int64_t PytorchProcess::in_bytes(const Stage& stage, std::int64_t rows) const {
  return replay_.activation_bytes(rows, stage.first_layer);
}

std::int64_t PytorchProcess::out_bytes(const Stage& stage, std::int64_t rows) const {
  return replay_.activation_bytes(rows, end_of(stage));
}

bool PytorchProcess::next_is_here(std::size_t stage) const {
  return stage + 1 < plan_.stages.size() && is_local_boundary(plan_.stages, stage + 1);
}

/// The autocast context ends behind schedule.step().
void PytorchProcess::end_round(Level level) {
  level.give(other, std::exchange(casts_, 0));
  level.give(activations, std::exchange(casts_of_inputs_, 0));
}

void PytorchProcess::forward(std::size_t s, const Work& work, Level level) {
  const Stage& stage = plan_.stages[s];
  replay_forward(replay_, work, level);
  if (replay_.keeps_casts() && !work.casts_are_there) {
    for (std::int32_t l = stage.first_layer; l < end_of(stage); ++l) {
      const AutogradTensors tensors = replay_.tensors(work.rows, l);
      casts_ += tensor_bytes(tensors.kept_parameters) + tensor_bytes(tensors.cached);
    }
  }
  if (replay_.keeps_cast_of_input(stage.first_layer, stage))
    casts_of_inputs_ += tensor_bytes(replay_.tensors(work.rows, stage.first_layer).kept);
  const bool last = is_last_stage(plan_.stages, s);
  if (last && replay_.has_logits()) replay_log_softmax(replay_, work, level);
  if (last && !replay_.has_logits() && replay_.gives_half())  // mse_loss, which is called behind the forward
    level.take(other, tensor_bytes(work.rows * output_numbers(plan_.spec.model)));
  if (next_is_here(s)) level.give(activations, out_bytes(stage, work.rows));
}

void PytorchProcess::backward(std::size_t s, const Work& work, Level level) {
  const Stage& stage = plan_.stages[s];
  if (work.loss) replay_loss(replay_, work, level);
  const std::int64_t arrived = work.loss ? out_bytes(stage, work.rows) : std::exchange(between_, 0);
  const std::int64_t left = replay_backward(replay_, work, stage, arrived, level);
  if (work.first_layer > stage.first_layer) {  // there is another part
    between_ = left;
    return;
  }
  if (!next_is_here(s)) level.give(activations, out_bytes(stage, work.rows));
  // The gradient of the input, in the place of the one of the step before.
  if (is_local_boundary(plan_.stages, s)) level.give(activations, in_bytes(stage, work.rows));
}

void PytorchProcess::send_backward(const Task& task, Level level) {
  if (is_split(task)) return;
  const std::int64_t rows = plan_.microbatch_rows[static_cast<std::size_t>(task.microbatch)];
  level.give(activations, std::exchange(sent_, in_bytes(plan_.stages[static_cast<std::size_t>(task.stage)], rows)));
  if (!keeps_sent_) level.give(activations, std::exchange(sent_, 0));
}

void PytorchProcess::input_backward(std::size_t s, const Work& work, Level level) {
  const Stage& stage = plan_.stages[s];
  if (work.loss) replay_loss(replay_, work, level);
  std::int64_t arrived = work.loss ? out_bytes(stage, work.rows) : 0;
  for (std::int32_t l = end_of(stage); l-- > stage.first_layer;) {
    const AutogradTensors tensors = replay_.tensors(work.rows, l);
    if (tensors.between_numbers > 0) {
      level.take(activations, allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes));
      level.give(activations, arrived);
    }
    const std::int64_t made =
        allocated_bytes(work.rows * input_numbers(layer_of(plan_, l)) * tensors.gradient_number_bytes);
    level.take(activations, made);
    if (tensors.between_numbers == 0 && !has_parameters(layer_of(plan_, l))) level.give(activations, arrived);
    arrived = replay_.activation_bytes(work.rows, l);
    if (arrived != made) {  // cast to the type of what went into the layer
      level.take(activations, arrived);
      level.give(activations, made);
    }
  }
  if (is_local_boundary(plan_.stages, s)) {
    level.give(activations, arrived);
  } else {
    kept_ += arrived;
  }
  if (is_last_stage(plan_.stages, s)) level.give(activations, out_bytes(stage, work.rows));
}

void PytorchProcess::weight_backward(std::size_t s, const Work& work, Level level) {
  const Stage& stage = plan_.stages[s];
  std::int64_t added = 0;               // of the layer before: gradients that have been added to what was there
  std::int64_t summed = 0, before = 0;  // the gradient of its product, as sum() copies it, and what was copied
  std::int64_t results = 0;             // of ReLUs
  for (std::int32_t l = stage.first_layer; l < end_of(stage); ++l) {
    const AutogradTensors tensors = replay_.tensors(work.rows, l);
    if (has_parameters(layer_of(plan_, l))) {
      const std::int64_t between = allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes);
      const std::int64_t copied = between > 0 ? between : replay_.activation_bytes(work.rows, l + 1);
      const bool arrived_in_buffer = l + 1 == end_of(stage) && !is_last_stage(plan_.stages, s);
      level.give(activations, std::exchange(before, between == 0 && arrived_in_buffer ? 0 : copied));
      level.take(activations, copied);
      level.give(activations, std::exchange(summed, copied));
    }
    std::int64_t made = 0, in_fp32 = 0;
    for (const ParameterTensor& tensor : parameter_tensors(layer_of(plan_, l))) {
      made += allocated_bytes(tensor.numbers() * tensors.gradient_number_bytes);
      in_fp32 += tensor_bytes(tensor.numbers());
    }
    level.take(gradients, made);
    const std::int64_t for_a_moment = backward_temporary_bytes(replay_, work.rows, tensors);
    level.take(other, for_a_moment);
    level.give(other, for_a_moment);
    if (made != in_fp32) {  // cast
      level.take(gradients, in_fp32);
      level.give(gradients, made);
    }
    level.give(gradients, std::exchange(added, work.accumulate ? in_fp32 : 0));
    if (!replay_.keeps_cast_of_input(l, stage)) level.give(activations, tensor_bytes(tensors.kept));
    if (l == stage.first_layer) continue;
    const std::int64_t input = replay_.activation_bytes(work.rows, l);
    // The last node of the graph holds those before it: what a layer has kept of its own result stays as long.
    if (replay_.keeps_result(l - 1)) {
      results += input;
    } else {
      level.give(activations, input);
    }
  }
  level.give(gradients, added);
  level.give(activations, before + summed + results);
  if (!is_last_stage(plan_.stages, s) && !next_is_here(s)) level.give(activations, out_bytes(stage, work.rows));
}

void PytorchProcess::optimizer(std::size_t s, std::int64_t loss_before, Level level) {
  level.give(activations, std::exchange(sent_, 0) + std::exchange(kept_, 0));
  level.give(other, loss_before);
  if (!takes_roots(plan_.spec.optimizer)) return;
  level.take(other, parameter_bytes(plan_, plan_.stages[s], 1));  // roots of the second moments, for a moment
  level.give(other, parameter_bytes(plan_, plan_.stages[s], 1));
}

}  // namespace pdl
