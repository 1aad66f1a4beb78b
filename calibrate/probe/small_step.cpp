#include "calibrate/probe/small_step.hpp"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "calibrate/probe/compute_operations.hpp"
#include "runtime/model/autocast.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kAnyBytes = std::int64_t{1} << 30;  // of a bucket: all gradients are in one

}  // namespace

SmallStep::SmallStep(int layers, c10::Device device, const RuntimeOptions& runtime, Dtype dtype,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : device_(device),
      dtype_(dtype),
      stage_(probe_plan(linear_relu(kDim, kDim), kRows, layers, "sgd"), 0, device, runtime) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  input_ = at::randn({kRows, kDim}, options);
  target_ = at::randn({kRows, kDim}, options);
  if (dtype_ == Dtype::amp_fp16) scaler_.emplace(RunSpec().loss_scale, device);
  if (!group) return;
  const std::vector<at::Tensor> parameters = stage_.parameters();
  std::vector<std::size_t> all(parameters.size());
  std::iota(all.rbegin(), all.rend(), std::size_t{0});
  reducer_ = make_reducer(parameters, {{all}, kAnyBytes, kAnyBytes, /*views=*/true}, group);
}

void SmallStep::clear() {
  stage_.zero_grad();
}

void SmallStep::keep_gradients() {
  kept_gradients_ = stage_.gradients();
}

void SmallStep::restore_gradients() {
  const std::vector<at::Tensor> parameters = stage_.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) at::Tensor(parameters[p]).mutable_grad() = kept_gradients_.at(p);
}

void SmallStep::prepare() {
  if (!reducer_) return;
  reducer_->prepare_for_forward();
  reducer_->prepare_for_backward({});
}

void SmallStep::forward() {
  const Autocast autocast(dtype_, device_.type());
  output_ = stage_.forward(input_);
}

void SmallStep::backward(bool keep) {
  at::Tensor loss;
  {
    const Autocast autocast(dtype_, device_.type());
    loss = weighted_loss(keep ? output_ : std::exchange(output_, {}), target_, 1);
  }
  (scaler_ ? scaler_->scale(loss) : loss).backward({}, keep);
}

void SmallStep::optimize() {
  if (scaler_) scaler_->unscale(stage_.gradients());
  if (!scaler_ || !scaler_->found_inf()) stage_.optimizer_step();
  if (scaler_) scaler_->update();
}

}  // namespace pdl
