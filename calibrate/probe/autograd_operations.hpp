// The operations of the one-thread programs that a device is probed for: LibTorch's modules under autograd.
//
//   AutogradOperations operations(linear_relu(4096, 4096), 512, Dtype::fp32, device, runtime);
//   for (const ComputeOperation& operation : operations.layers()) timer.time(operation.work, ...);
//
// A backward is run again and again over one kept graph of 4 layers (with input gradient) or 1 layer (without).
// Gradients of parameters are none before it (the first micro-batch of a step takes them over) or there (later ones are
// added). Under AMP the parameters are fp32 and every forward opens a scope of autocast of its own, so that it casts
// weights and biases as the forward of a step does; the input is in half precision, as it comes from the layer before.
// The cast of the model's own input is not in it. Layers of in x out that differ are no chain: 4 graphs of 1 layer, one
// after another, in one call of autograd.
// Issue times are those of the calling thread, which waits while autograd's own thread issues.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/probe/compute_operations.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"

namespace pdl {

/// Equal layers, micro-batches of `rows` samples, on the current stream of `device`. One layer instead of four where
/// the second of a chain would get another type than the first under autocast; none without input gradient where
/// nothing is left to compute, or where autocast does not change it (a row-wise kind, whose input is fp32 there).
class AutogradOperations {
 public:
  AutogradOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                     const RuntimeOptions& runtime);
  std::vector<ComputeOperation> layers();

 private:
  /// Stages, of each its input, its output with the graph behind it, and a gradient of that output.
  struct Kept {
    std::vector<std::unique_ptr<AutogradStage>> stages;
    std::vector<at::Tensor> inputs, outputs, output_gradients;
    void forward();
    void backward(bool accumulate);
  };
  Kept keep(int stages, int layers, bool input_gradient, const RuntimeOptions& runtime) const;

  Layer layer_;
  std::int64_t rows_;
  Dtype dtype_;
  c10::Device device_;
  int middle_layers_;
  Kept first_, middle_;  // no stage in first_: it is not probed
};

/// The loss of rows x width numbers and its gradient; with amp-fp16 scaled.
class AutogradLoss {
 public:
  AutogradLoss(std::int64_t rows, std::int64_t width, Dtype dtype, c10::Device device);
  ComputeOperation operation();

 private:
  void run();

  std::int64_t rows_;
  std::int64_t width_;
  Dtype dtype_;
  at::Tensor prediction_, target_;
  std::optional<GradScaler> scaler_;
};

/// The optimizer over all parameters of these layers; "unscale": what GradScaler does to their gradients before it, and
/// its update.
class AutogradOptimizer {
 public:
  AutogradOptimizer(const std::vector<Layer>& layers, const std::string& optimizer, c10::Device device,
                    const RuntimeOptions& runtime);
  ComputeOperation operation();

 private:
  std::string optimizer_;
  std::optional<GradScaler> scaler_;
  std::unique_ptr<AutogradStage> stage_;
};

}  // namespace pdl
