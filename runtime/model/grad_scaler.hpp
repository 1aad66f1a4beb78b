// Loss scaling for amp-fp16, as torch.amp.GradScaler does it: gradients too small for fp16 are scaled up with the loss,
// a step whose gradients are not all finite is skipped, and the scale follows.
//
//   GradScaler scaler(spec.loss_scale, device);
//   scaler.scale(loss).backward();
//   for (AutogradStage& stage : stages) scaler.unscale(stage.gradients());  // once a device
//   const bool skip = scaler.found_inf();               // the host waits for the devices
//   if (!skip) for (AutogradStage& stage : stages) stage.optimizer_step();
//   scaler.update();                                    // x 0.5 after a skipped step, x 2 after 2000 others
//
// Source: torch/amp/grad_scaler.py, PyTorch 2.11, with its default numbers. The same operations in the same order, on
// the current stream of each device. The scale lives on the device of the loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace pdl {

class GradScaler {
 public:
  static constexpr double kGrowthFactor = 2;
  static constexpr double kBackoffFactor = 0.5;
  static constexpr int kGrowthInterval = 2000;  // steps in a row without infinities

  /// `device`: of the loss.
  GradScaler(double initial_scale, at::Device device);

  at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of one device by the scale, in place, and looks whether all are finite. At least one; once a
  /// device and step.
  void unscale(const std::vector<at::Tensor>& gradients);

  /// True if a gradient that was unscaled in this step is not finite: the step must be skipped. Waits for the devices,
  /// one after another.
  bool found_inf() const;

  /// At the end of a step: the next scale.
  void update();

  /// Waits for the device.
  double current_scale() const;

 private:
  at::Tensor scale_;                    // fp32, one number
  at::Tensor growth_tracker_;           // int32, one number: steps in a row without infinities
  at::Tensor inverse_scale_;            // of this step
  std::vector<at::Tensor> found_infs_;  // of this step, one a device
};

}  // namespace pdl
