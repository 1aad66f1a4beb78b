// The layers of one stage as the course writes them: LibTorch's modules on one device
// (runtime/model/layer_modules.hpp), backward by autograd, the optimizer as Python's torch.optim runs it by default.
//
//   AutogradStage stage(plan, 1, device, options);
//   at::Tensor y = stage.forward(x);                           // x: rows x in, y: rows x out, on the stage's device
//                                                              // of a model that takes tokens x is whole numbers
//   microbatch_loss(y, target, plan.spec.batch).backward();    // through this stage and those before it
//   stage.optimizer_step();
//   stage.zero_grad();
//
// Layers that the plan runs again (layers_run_again) are checkpointed (runtime/model/checkpoint.hpp).
// fp32; whether products use TF32 is LibTorch's setting. Launched on the current stream of the calling thread, the
// backward on the streams of the forward (autograd's rule). Not here: mixed precision (runtime/model/autocast.hpp),
// the order of stages (runtime/program/autograd_program.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/model/checkpoint.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// SGD, Adam and AdamW over the parameters of one device, as PyTorch 2.11's torch.optim.SGD, Adam and AdamW run them on
/// GPUs unless told otherwise (_multi_tensor_sgd, _multi_tensor_adam): the same foreach operations in the same order
/// over all parameters at once; and AdamW(fused=True). Python groups the parameters by device; one of these a device is
/// the same.
class ForeachOptimizer {
 public:
  ForeachOptimizer(std::vector<at::Tensor> parameters, Optimizer kind, double learning_rate);

  /// Every parameter has a gradient. Nothing where there are no parameters.
  void step();

 private:
  void adam(const std::vector<at::Tensor>& gradients);
  void fused_adamw(const std::vector<at::Tensor>& gradients);

  std::vector<at::Tensor> parameters_;
  Optimizer kind_;
  double learning_rate_;
  std::vector<at::Tensor> first_moments_, second_moments_;  // Adam, AdamW
  std::vector<at::Tensor> step_counts_;                     // of the fused AdamW
  std::int64_t steps_ = 0;
};

class AutogradStage {
 public:
  /// Draws the parameters (runtime/model/initial_values.hpp).
  AutogradStage(const Plan& plan, int stage, at::Device device, const RuntimeOptions& options);

  at::Device device() const { return device_; }

  /// `watcher`: of layers that are run again; it must be there until the backward has ended.
  at::Tensor forward(at::Tensor x, RecomputationWatcher* watcher = nullptr);

  /// Sets all gradients to none, as Optimizer.zero_grad() does.
  void zero_grad();

  void optimizer_step() { optimizer_.step(); }

  /// Of every layer, in order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  /// Of the parameters, in their order. There are gradients.
  std::vector<at::Tensor> gradients() const;

 private:
  /// Of the layer at `place`, whose parameters these are.
  at::Tensor run(std::size_t place, at::Tensor x, std::span<const at::Tensor> parameters, const at::Tensor& tied,
                 RecomputationWatcher* watcher) const;

  at::Device device_;
  int first_layer_;  // of the model
  std::vector<Layer> layers_;
  std::vector<bool> run_again_;  // by layer; empty: none is
  std::vector<at::Tensor> parameters_;
  ForeachOptimizer optimizer_;
};

/// nn.MSELoss, or where targets are tokens nn.CrossEntropyLoss over all tokens of all rows, times `weight`. A weight of
/// 1 costs nothing.
at::Tensor weighted_loss(const at::Tensor& output, const at::Tensor& target, double weight);

/// The same of a micro-batch of one of `rounds` accumulation rounds, times rows / batch / rounds: the losses of all
/// micro-batches of a step, whatever their sizes, add up to the loss of the batch, and so do their gradients.
at::Tensor microbatch_loss(const at::Tensor& output, const at::Tensor& target, std::int64_t batch,
                           std::int64_t rounds = 1);

/// The sum of the losses of a step's micro-batches; NaN if one is missing. Waits for the device.
double sum_of_losses(const std::vector<at::Tensor>& losses);

/// Copies on the host, apart from the graph.
std::vector<at::Tensor> copies_on_host(const std::vector<at::Tensor>& parameters);

}  // namespace pdl
