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

SmallStep::SmallStep(c10::Device device, const RuntimeOptions& runtime, const std::string& dtype,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : device_(device), dtype_(dtype_of(dtype)), stage_(probe_plan(kDim, kRows, kLayers, "sgd"), 0, device, runtime) {
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

void SmallStep::clear() { stage_.zero_grad(); }

void SmallStep::forward() {
  if (reducer_) {
    reducer_->prepare_for_forward();
    if (reducer_->should_rebuild_buckets()) reducer_->rebuild_buckets();
  }
  {
    const Autocast autocast(dtype_, device_.type());
    output_ = stage_.forward(input_);
  }
  if (reducer_) reducer_->prepare_for_backward({});
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
