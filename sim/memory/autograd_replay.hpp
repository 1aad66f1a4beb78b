// What LibTorch's autograd allocates and frees for the layers of one task: a forward, a loss, a backward. It is what
// its programs have in common (sim/memory/autograd_memory.hpp, pytorch_process.hpp), which differ in what goes when.
//
//   const Replay replay{plan, 132};
//   replay_forward(replay, work, {memory, task});
//
// Units: bytes. Internal to sim/memory.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/allocated_tensors.hpp"
#include "sim/memory/memory_changes.hpp"
#include "sim/plan/backward_parts.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// The memory of the GPU of one task.
struct Level {
  GpuMemory& memory;
  TaskId task;
  void take(MemoryCategory category, std::int64_t bytes) { memory.take(task, category, bytes); }
  void give(MemoryCategory category, std::int64_t bytes) { memory.give(task, category, bytes); }
};

/// What tasks of autograd need beside their bytes.
struct Replay {
  const Plan& plan;
  std::int64_t multiprocessors;  // of the GPU; 0: no GPU
  std::vector<std::int64_t> number_bytes = activation_number_bytes(plan.spec.model, plan.spec.dtype);
  std::vector<bool> run_again = layers_run_again(plan);

  std::int64_t layer_count() const { return std::ssize(layers()); }
  /// What goes into layer `index` (the number of layers: what the model gives).
  std::int64_t activation_bytes(std::int64_t rows, std::int64_t index) const {
    const std::int64_t numbers =
        index < layer_count() ? input_numbers(layer_of(plan, index)) : output_numbers(plan.spec.model);
    return allocated_bytes(rows * numbers * number_bytes[static_cast<std::size_t>(index)]);
  }
  AutogradCase at(std::int64_t rows, std::int64_t index) const {
    const std::int64_t of_input = number_bytes[static_cast<std::size_t>(index)];
    return {rows, plan.spec.dtype, of_input, /*input_gradient=*/index > 0};
  }
  AutogradTensors tensors(std::int64_t rows, std::int64_t index) const {
    return autograd_tensors(layer_of(plan, index), at(rows, index));
  }
  bool is_run_again(std::int64_t index) const { return run_again[static_cast<std::size_t>(index)]; }
  /// From the forward to the backward: a layer that is run again keeps its input alone.
  bool keeps_result(std::int64_t index) const { return !is_run_again(index) && tensors(1, index).keeps_result; }
  bool keeps_input(std::int64_t index) const { return is_run_again(index) || tensors(1, index).keeps_input; }
  /// The loss is of a copy in fp32.
  bool gives_half() const { return number_bytes.back() < kBytesPerNumber; }
  bool is_dp() const { return plan.parallel.program == Program::data_parallel; }
  bool is_pytorch_pipeline() const { return plan.parallel.program == Program::pytorch_pipeline; }
  /// What goes into the stage's first layer is in a buffer that lasts for the whole training.
  bool input_stays(std::int64_t layer, const Work& work) const {
    return layer == 0 || (is_pytorch_pipeline() && layer == work.first_layer);
  }
  /// Autocast's casts of parameters last to the end of a round, whose forwards and backwards are all in one context.
  bool keeps_casts() const { return is_pytorch_pipeline() && is_amp(plan.spec.dtype); }
  /// So does the cast of what comes into such a stage in fp32: its buffer is a leaf that needs a gradient, as a
  /// parameter is, and autocast keeps casts of those (autocast_mode.cpp, cached_cast). A block has its norm, in fp32,
  /// before its products.
  bool keeps_cast_of_input(std::int64_t layer, const Stage& stage) const {
    return keeps_casts() && layer > 0 && layer == stage.first_layer && !layer_of(plan, layer).kind->inner &&
           !tensors(1, layer).kept_parameters.empty();
  }
  /// A script in Python has what model(x) gave in a variable while loss.backward() runs.
  bool holds_output() const {
    return plan.spec.program == ProgramOf::pytorch &&
           (plan.parallel.program == Program::one_thread || plan.parallel.program == Program::ddp);
  }
  /// PipelineStage.backward_one_chunk has the stage's result in a variable until its end.
  bool result_stays(std::int64_t layer, const Stage& stage) const {
    if (holds_output()) return layer + 1 == layer_count();
    return is_pytorch_pipeline() && layer + 1 == stage.first_layer + stage.layer_count;
  }
  /// Of the outputs that a loss is of: all rows of DataParallel's micro-batch.
  std::int64_t loss_rows(const Work& work) const {
    return is_dp() ? work.bytes / kBytesPerNumber / output_numbers(plan.spec.model) : work.rows;
  }
  bool has_logits() const { return plan.spec.model.loss == Loss::cross_entropy; }
  /// Of the weight that the embedding and the head share: its gradient by the head waits for that by the embedding.
  std::int64_t tied_bytes() const {
    return is_tied(plan.spec.model) ? tensor_bytes(parameter_tensors(layers().front()).front().numbers()) : 0;
  }
  /// What a loss keeps: cross_entropy its result; mse_loss: it is mse_loss's own result, unless a weight makes another
  /// of it (weighted_loss, runtime/model).
  std::int64_t kept_by_loss(const Work& work) const {
    if (has_logits()) return tensor_bytes(1);
    const std::int64_t rows = loss_rows(work), replicas = is_dp() ? 1 : plan.parallel.mesh.dp;
    return rows * replicas == plan.spec.batch * plan.spec.accum ? tensor_bytes(rows * output_numbers(plan.spec.model))
                                                                : 0;
  }
  std::int64_t output_bytes(const Work& loss) const { return activation_bytes(loss_rows(loss), layer_count()); }
  const std::vector<Layer>& layers() const { return plan.spec.model.layers; }
};

/// What the sum over `rows` of a gradient of `width` columns takes for a moment, in any data type: partial sums in
/// fp32, one a block, thread and column of four, where rows are split over blocks of threads (PyTorch 2.11,
/// aten/src/ATen/native/cuda/Reduce.cuh: setReduceConfig, global_memory_size; cards with 2,048 threads a
/// multiprocessor). 0 below 1,024 rows, then as much as two such gradients in fp32, until the blocks fill the card.
std::int64_t bias_sum_bytes(std::int64_t rows, std::int64_t width, std::int64_t multiprocessors);

/// What a layer's backward of so many rows takes for a moment on a GPU: such a sum, and what its kernels need.
std::int64_t backward_temporary_bytes(const Replay& replay, std::int64_t rows, const AutogradTensors& tensors);

/// The gradients of a layer's parameters, which are there as its backward has made them, of so many bytes a number:
/// AccumulateGrad has them in fp32. `waits`: for a second gradient of the same parameter.
void replay_parameter_gradients(const Replay& replay, const Work& work, const Layer& layer, std::int64_t number_bytes,
                                bool waits, Level level);

/// Weights of DataParallel's replicas that go with the backward of their layer: those that it reads for the gradient of
/// its input.
std::int64_t weight_bytes(const Layer& layer);

/// Every layer makes its result, and what it keeps beside it. What went into it goes, unless it or the layer before
/// keeps that; what went into the model is data. Under autocast casts that no backward reads go at the end, or stay all
/// (Replay::keeps_casts), and at the end all casts of a layer that is run again.
void replay_forward(const Replay& replay, const Work& work, Level level);

/// One layer again, for its backward, in an autocast context of its own: what it keeps is there then. The forward stops
/// where all of that is.
void replay_recomputation(const Replay& replay, const Work& work, Level level);

/// Layers of a stage, last one first. `arrived`: the gradient of the last layer's result; of GPU 0 of several under
/// DataParallel a view of all rows' gradient, of a single one 0: the gradient goes, but the last result is the output,
/// and stays. Gives the gradient of the first layer's input, which is there; 0: there is none.
std::int64_t replay_backward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t arrived,
                             Level level);

/// cross_entropy: log_softmax of the logits, in their type (it says which it wants, so that autocast leaves it), and
/// where that is half once more in fp32 for nll_loss; backwards read both. A program that calls the loss behind the
/// forward (PyTorch's pipelines) has them from there on (aten/src/ATen/native/LossNLL.cpp, autocast_mode.h, PyTorch
/// 2.11).
void replay_log_softmax(const Replay& replay, const Work& work, Level level);

/// The gradient of cross_entropy, by way of that of log_softmax. mse_loss in fp32 and its gradient: the terms, and once
/// more what their mean reads. An output that no layer keeps is kept by the loss, or, if it is half, its copy in fp32;
/// DataParallel keeps the output in any case.
void replay_loss(const Replay& replay, const Work& work, Level level);

}  // namespace pdl
