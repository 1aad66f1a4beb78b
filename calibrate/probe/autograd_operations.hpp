// The operations of the one-thread programs that a device is probed for: LibTorch's modules under autograd.
//
//   AutogradOperations operations(linear_relu(4096, 4096), 512, Dtype::fp32, device, runtime);
//   for (const ComputeOperation& operation : operations.layers()) timer.time(operation.work, ...);
//
// A backward is run again and again over one kept graph of 4 layers (with input gradient) or 1 layer (without).
// Gradients of parameters are none before it (the first micro-batch of a step takes them over) or there (later ones are
// added). Under AMP the parameters are fp32 and every forward opens a scope of autocast of its own, so that it casts
// weights and biases as the forward of a step does; the input is in half precision, as it comes from the layer before.
// The cast of the model's own input is not in it.
// Issue times are those of the calling thread, which waits while autograd's own thread issues.
#pragma once

#include <optional>

#include "calibrate/probe/compute_operations.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"

namespace pdl {

/// Equal layers, micro-batches of `rows` samples, on the current stream of `device`. One layer instead of four where
/// the second would get another type than the first under autocast; none without input gradient where nothing is left
/// to compute, or where autocast does not change it (a row-wise kind, whose input is fp32 there).
class AutogradOperations {
 public:
  AutogradOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                     const RuntimeOptions& runtime);
  std::vector<ComputeOperation> layers();
  /// Of the last layer's output.
  ComputeOperation loss();

 private:
  /// One stage, its input, its output with the graph behind it, and a gradient of that output.
  struct Kept {
    std::unique_ptr<AutogradStage> stage;
    at::Tensor input, output, output_gradient;
    void backward(bool accumulate);
  };
  Kept keep(int layers, bool input_gradient, const RuntimeOptions& runtime) const;
  void run_loss();

  Layer layer_;
  std::int64_t rows_;
  Dtype dtype_;
  c10::Device device_;
  int middle_layers_;
  Kept first_, middle_;  // no stage in first_: it is not probed
  at::Tensor prediction_, target_;
  std::optional<GradScaler> scaler_;
};

/// The optimizer over 1 and over 4 layers; "unscale": what GradScaler does to their gradients before it, and its
/// update.
class AutogradOptimizerOperations {
 public:
  AutogradOptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device,
                              const RuntimeOptions& runtime);
  std::vector<ComputeOperation> list();

 private:
  std::string optimizer_;
  std::optional<GradScaler> scaler_;
  std::vector<std::unique_ptr<AutogradStage>> stages_;
};

}  // namespace pdl
