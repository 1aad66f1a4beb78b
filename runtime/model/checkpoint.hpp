// Activation checkpointing of one layer, as torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) does it
// (PyTorch 2.11, torch/utils/checkpoint.py): of its forward the input alone is kept; its backward runs it again.
//
//   at::Tensor y = checkpointed([&](const at::Tensor& x) { return layer(x); }, x, {.layer = 3});
//   loss.backward();                  // layer(x) again, as soon as its backward asks for a tensor
//
// LibTorch has hooks for what an operation saves for its backward, but no checkpoints. Here they give each such tensor
// a number. The first one that the backward asks for runs the layer again, under the same autocast, with the same
// random numbers if it draws any, and stops where the last number has its tensor: what comes behind it no backward
// reads. The graph, and with it the order of the gradients, is that without checkpoints.
//
// Units: none. Not here: checkpoints inside of each other; a second backward through the same graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace pdl {

/// Told of a layer that is run again, on the thread of the backward. Layers are named by their index in the model.
class RecomputationWatcher {
 public:
  virtual ~RecomputationWatcher() = default;
  virtual void recomputation_begins(int layer) = 0;
  virtual void recomputation_ends(int layer) = 0;
  /// The gradient of what goes into the layer is complete. Not of the model's first layer.
  virtual void backward_ends(int layer) = 0;
};

struct CheckpointOptions {
  int layer = 0;
  bool draws_random_numbers = false;
  RecomputationWatcher* watcher = nullptr;  // must be there until the backward has ended
};

/// forward(input), which must do the same when it is called again.
at::Tensor checkpointed(std::function<at::Tensor(const at::Tensor&)> forward, const at::Tensor& input,
                        const CheckpointOptions& options);

}  // namespace pdl
