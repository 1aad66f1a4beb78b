// The operations of the one-thread programs that a device is probed for: LibTorch's modules under autograd.
//
//   AutogradOperations operations(4096, 512, device, runtime);
//   for (const ComputeOperation& operation : operations.layers_and_loss()) timer.time(operation.work, ...);
//
// A backward is run again and again over one kept graph of 4 layers (with input gradient) or 1 layer (without). Gradients
// of parameters are none before it (the first micro-batch of a step takes them over) or there (later ones are added).
// Issue times are those of the calling thread, which waits while autograd's own thread issues.
#pragma once

#include "calibrate/probe/compute_operations.hpp"
#include "runtime/model/autograd_model.hpp"

namespace pdl {

/// Layers dim x dim, micro-batches of `rows` samples, on the current stream of `device`.
class AutogradOperations {
 public:
  AutogradOperations(std::int64_t dim, std::int64_t rows, c10::Device device, const RuntimeOptions& runtime);
  std::vector<ComputeOperation> layers_and_loss();

 private:
  /// One stage, its input, its output with the graph behind it, and a gradient of that output.
  struct Kept {
    std::unique_ptr<AutogradStage> stage;
    at::Tensor input, output, output_gradient;
    void backward(bool accumulate);
  };
  static Kept keep(std::int64_t dim, std::int64_t rows, int layers, bool input_gradient, c10::Device device,
                   const RuntimeOptions& runtime);

  std::int64_t dim_, rows_;
  Kept first_, middle_;
  at::Tensor prediction_, target_;
};

/// The optimizer over 1 and over 4 layers.
class AutogradOptimizerOperations {
 public:
  AutogradOptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device, const RuntimeOptions& runtime);
  std::vector<ComputeOperation> list();

 private:
  std::string optimizer_;
  std::vector<std::unique_ptr<AutogradStage>> stages_;
};

}  // namespace pdl
