#include "sim/memory/autograd_replay.hpp"

#include <algorithm>
#include <bit>

#include "sim/memory/composed_backward.hpp"

namespace pdl {
namespace {

using enum MemoryCategory;

}  // namespace

std::int64_t bias_sum_bytes(std::int64_t rows, std::int64_t width, std::int64_t multiprocessors) {
  constexpr std::int64_t kColumns = 4;                          // that a thread reads at once
  constexpr std::int64_t kThreads = 512 / kColumns;             // of a block
  constexpr std::int64_t kBlocks = 2048 / kThreads;             // that a multiprocessor holds
  constexpr std::int64_t kLeastValues = 16, kMostValues = 256;  // of a thread
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const auto power_of_two = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  };
  if (width % kColumns != 0 || rows == 0 || multiprocessors == 0) return 0;
  const std::int64_t across = std::min<std::int64_t>(power_of_two(width / kColumns), 32);
  const std::int64_t along = std::min(power_of_two(rows), kThreads / across);
  const std::int64_t values = divided(rows, along);
  const std::int64_t blocks = divided(width / kColumns, across), most_blocks = kBlocks * multiprocessors;
  if (values < kMostValues || blocks > most_blocks) return 0;
  const std::int64_t parts =
      std::max(std::min(divided(most_blocks, blocks), divided(values, kLeastValues)), divided(values, kMostValues));
  return parts > 1 ? allocated_bytes(kBytesPerNumber * width * parts * across * kColumns) : 0;
}

std::int64_t backward_temporary_bytes(const Replay& replay, std::int64_t rows, const AutogradTensors& tensors) {
  if (replay.multiprocessors == 0) return 0;
  const std::int64_t sums =
      tensors.summed_columns > 0 ? bias_sum_bytes(rows, tensors.summed_columns, replay.multiprocessors) : 0;
  return sums + tensor_bytes(tensors.backward_temporary);
}

std::int64_t weight_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    bytes += tensor.read_by_input_gradient ? tensor_bytes(tensor.numbers()) : 0;
  return bytes;
}

namespace {

/// The forward of a layer that will be run again. Gives autocast's casts that last to the end of the whole forward: of
/// Python's programs all. LibTorch's linear in C++ multiplies by a view of the weight, whose cast autocast does not
/// keep (torch/nn/functional/linear.h), so that only biases' do.
std::int64_t replay_unkept_layer(const Replay& replay, const Work& work, std::int64_t l, Level level) {
  AutogradCase at = replay.at(work.rows, l);
  at.input_gradient = true;  // so that the cast of a weight is among those that are kept
  const Layer& layer = layer_of(replay.plan, l);
  const AutogradTensors tensors = autograd_tensors(layer, at);
  const bool keeps_casts = replay.plan.spec.program == ProgramOf::pytorch;
  const std::int64_t casts = tensor_bytes(tensors.cached) + (keeps_casts ? tensor_bytes(tensors.kept_parameters) : 0);
  const std::int64_t inside = allocated_bytes(most_bytes_of_unkept_forward(layer, at, !keeps_casts));
  level.take(other, casts + inside);
  level.take(activations, replay.activation_bytes(work.rows, l + 1));
  level.give(other, inside);
  return casts;
}

}  // namespace

void replay_recomputation(const Replay& replay, const Work& work, Level level) {
  const std::int64_t l = work.first_layer;
  const AutogradTensors tensors = replay.tensors(work.rows, l);
  const std::int64_t result = replay.activation_bytes(work.rows, l + 1);
  const Layer& layer = layer_of(replay.plan, l);
  const bool gives_result = runs_again_to_its_end(layer);
  level.take(activations, tensor_bytes(tensors.kept));
  level.take(other, tensor_bytes(tensors.kept_parameters) + tensor_bytes(tensors.cached));
  level.take(other, tensor_bytes(tensors.temporary));
  if (gives_result) level.take(activations, result);
  level.give(other, tensor_bytes(tensors.temporary) + tensor_bytes(tensors.cached));
  if (gives_result && !tensors.keeps_result) level.give(activations, result);
}

void replay_forward(const Replay& replay, const Work& work, Level level) {
  std::int64_t cached = 0;
  for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l) {
    const AutogradTensors tensors = replay.tensors(work.rows, l);
    const bool kept_before = replay.input_stays(l, work) || (l > work.first_layer && replay.keeps_result(l - 1));
    if (replay.is_run_again(l)) {
      cached += replay_unkept_layer(replay, work, l, level);
      continue;
    }
    level.take(activations, tensor_bytes(tensors.kept));
    if (!work.casts_are_there) level.take(other, tensor_bytes(tensors.kept_parameters) + tensor_bytes(tensors.cached));
    if (!replay.keeps_casts()) cached += tensor_bytes(tensors.cached);
    level.take(other, tensor_bytes(tensors.temporary));
    level.take(activations, replay.activation_bytes(work.rows, l + 1));
    level.give(other, tensor_bytes(tensors.temporary));
    if (!replay.keeps_input(l) && !kept_before) level.give(activations, replay.activation_bytes(work.rows, l));
  }
  level.give(other, cached);
}

/// The tied weight's gradient by the head, which waits, and that by the embedding are added: in the memory of the
/// first, if that is a cast; in fp32 it is a view, a product transposed, so that the sum is a third tensor (PyTorch
/// 2.11, torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace).
void replay_tied_sum(const Replay& replay, Level level) {
  const std::int64_t once = replay.tied_bytes();
  if (!is_amp(replay.plan.spec.dtype)) {
    level.take(gradients, once);
    level.give(gradients, once);
  }
  level.give(gradients, once);
}

void replay_parameter_gradients(const Replay& replay, const Work& work, const Layer& layer, std::int64_t number_bytes,
                                bool waits, Level level) {
  // Added to what is there, or copied into a bucket that is the gradient.
  const bool goes = work.accumulate || replay.plan.spec.bucket_views;
  const bool is_tied = layer.kind->takes_tokens && replay.tied_bytes() > 0;
  const std::vector<ParameterTensor> parameters = parameter_tensors(layer);
  for (auto tensor = parameters.rbegin(); tensor != parameters.rend(); ++tensor) {
    const std::int64_t in_fp32 = tensor_bytes(tensor->numbers());
    if (number_bytes < kBytesPerNumber) {  // cast
      level.take(gradients, in_fp32);
      level.give(gradients, allocated_bytes(tensor->numbers() * number_bytes));
    }
    if (is_tied) replay_tied_sum(replay, level);
    if (goes && !waits) level.give(gradients, in_fp32);
  }
}

namespace {

/// The backward of one layer; `arrived` is the gradient of its result. Gives what it leaves: that of its input.
std::int64_t replay_layer_backward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t l,
                                   std::int64_t arrived, Level level) {
  const Layer& layer = layer_of(replay.plan, l);
  const AutogradTensors tensors = replay.tensors(work.rows, l);
  if (tensors.between_numbers > 0) {
    const std::int64_t between = allocated_bytes(tensors.between_numbers * tensors.gradient_number_bytes);
    level.take(activations, between);
    // The result of a forward that was run again is no longer that which is held.
    const bool goes = tensors.keeps_result && (replay.is_run_again(l) || !replay.result_stays(l, stage));
    level.give(activations, arrived + (goes ? replay.activation_bytes(work.rows, l + 1) : 0));
    arrived = between;
  }
  const std::int64_t made =
      l > 0 ? allocated_bytes(work.rows * input_numbers(layer) * tensors.gradient_number_bytes) : 0;
  level.take(activations, made);
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    level.take(gradients, allocated_bytes(tensor.numbers() * tensors.gradient_number_bytes));
  const std::int64_t for_a_moment = backward_temporary_bytes(replay, work.rows, tensors);
  level.take(other, for_a_moment);
  level.give(other, for_a_moment);
  level.give(activations, arrived + (replay.keeps_cast_of_input(l, stage) ? 0 : tensor_bytes(tensors.kept)));
  if (!replay.keeps_casts()) level.give(other, tensor_bytes(tensors.kept_parameters));
  if (l > stage.first_layer && replay.keeps_input(l) && !replay.keeps_result(l - 1))
    level.give(activations, replay.activation_bytes(work.rows, l));
  const std::int64_t left = l > 0 ? replay.activation_bytes(work.rows, l) : 0;
  if (left != made) {  // cast to the type of what went into the layer
    level.take(activations, left);
    level.give(activations, made);
  }
  replay_parameter_gradients(replay, work, layer, tensors.gradient_number_bytes, /*waits=*/false, level);
  return left;
}

}  // namespace

std::int64_t replay_backward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t arrived,
                             Level level) {
  for (std::int32_t l = work.first_layer + work.layer_count; l-- > work.first_layer;) {
    arrived = layer_of(replay.plan, l).kind->inner ? ComposedBackward(replay, work, stage, l, level).run(arrived)
                                                   : replay_layer_backward(replay, work, stage, l, arrived, level);
    // DataParallel's replicas: the weight of a layer goes with its backward.
    if (replay.is_dp() && stage.replica > 0 && l > 0)
      level.give(MemoryCategory::parameters, weight_bytes(layer_of(replay.plan, l)));
  }
  return arrived;
}

void replay_log_softmax(const Replay& replay, const Work& work, Level level) {
  const std::int64_t in_fp32 = tensor_bytes(replay.loss_rows(work) * output_numbers(replay.plan.spec.model));
  if (replay.gives_half()) level.take(other, replay.output_bytes(work));
  level.take(other, in_fp32);
}

namespace {

void replay_cross_entropy(const Replay& replay, const Work& work, Level level) {
  const std::int64_t in_fp32 = tensor_bytes(replay.loss_rows(work) * output_numbers(replay.plan.spec.model));
  const std::int64_t in_half = replay.gives_half() ? replay.output_bytes(work) : 0;
  if (!replay.is_pytorch_pipeline()) replay_log_softmax(replay, work, level);
  level.take(other, replay.kept_by_loss(work));
  if (!replay.is_dp() && !replay.is_pytorch_pipeline() && !replay.holds_output())
    level.give(activations, replay.output_bytes(work));
  level.take(other, in_fp32);  // the gradient of log_softmax's result
  if (in_half == 0) {
    level.take(activations, in_fp32);  // of the logits
    level.give(other, 2 * in_fp32);
    return;
  }
  level.give(other, in_fp32);  // log_softmax in fp32, for nll_loss
  level.take(other, in_half);  // its gradient again, in half precision
  level.give(other, in_fp32);
  level.take(activations, in_half);  // of the logits
  level.give(other, 2 * in_half);
}

}  // namespace

void replay_loss(const Replay& replay, const Work& work, Level level) {
  if (replay.has_logits()) return replay_cross_entropy(replay, work, level);
  const std::int64_t in_fp32 = tensor_bytes(replay.loss_rows(work) * output_numbers(replay.plan.spec.model));
  const bool half = replay.gives_half();
  const bool goes = !replay.is_dp() && !replay.is_pytorch_pipeline() && !replay.holds_output() &&
                    !replay.keeps_result(replay.layer_count() - 1);
  if (half && !replay.is_pytorch_pipeline()) level.take(other, in_fp32);  // the output's copy
  level.take(other, 2 * in_fp32);
  level.give(other, 2 * in_fp32 - replay.kept_by_loss(work));
  if (half && goes) level.give(activations, replay.output_bytes(work));
  level.take(activations, in_fp32);  // the gradient
  if (half) {
    level.give(other, in_fp32);
    level.take(activations, replay.output_bytes(work));
    level.give(activations, in_fp32);
  } else if (goes) {
    level.give(activations, in_fp32);
  }
}

}  // namespace pdl
