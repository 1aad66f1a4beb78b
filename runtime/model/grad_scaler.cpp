#include "runtime/model/grad_scaler.hpp"

#include <ATen/ATen.h>

namespace pdl {

GradScaler::GradScaler(double initial_scale, at::Device device)
    : scale_(at::full({}, initial_scale, at::TensorOptions().device(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros({}, at::TensorOptions().device(device).dtype(at::kInt))) {}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss * (loss.device() == scale_.device() ? scale_ : scale_.to(loss.device(), /*non_blocking=*/true));
}

void GradScaler::unscale(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  // By way of double, or the reciprocal of a large scale might be rounded to 0.
  if (found_infs_.empty()) inverse_scale_ = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  const at::Device device = gradients.front().device();
  found_infs_.push_back(at::zeros({}, at::TensorOptions().device(device).dtype(at::kFloat)));
  const at::Tensor inverse =
      inverse_scale_.device() == device ? inverse_scale_ : inverse_scale_.to(device, /*non_blocking=*/true);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_infs_.back(), inverse);
}

bool GradScaler::found_inf() const {
  double found = 0;
  for (const at::Tensor& of_device : found_infs_) found += of_device.item<double>();
  return found > 0;
}

void GradScaler::update() {
  const at::NoGradGuard no_grad;
  at::Tensor found = found_infs_.front().to(scale_.device(), /*non_blocking=*/true);
  for (std::size_t i = 1; i < found_infs_.size(); ++i)
    found += found_infs_[i].to(scale_.device(), /*non_blocking=*/true);
  at::_amp_update_scale_(scale_, growth_tracker_, found, kGrowthFactor, kBackoffFactor, kGrowthInterval);
  found_infs_.clear();
}

double GradScaler::current_scale() const {
  return scale_.item<double>();
}

}  // namespace pdl
