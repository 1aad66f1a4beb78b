#include "calibrate/probe/autograd_operations.hpp"

#include <ATen/ATen.h>

#include "runtime/model/autocast.hpp"

namespace pdl {
namespace {

constexpr int kMiddleLayers = 4;
constexpr double kScale = 65536;  // of PyTorch's GradScaler at first

at::ScalarType compute_type(Dtype dtype) {
  return dtype == Dtype::amp_fp16 ? at::kHalf : dtype == Dtype::amp_bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

AutogradOperations::Kept AutogradOperations::keep(int layers, bool input_gradient,
                                                  const RuntimeOptions& runtime) const {
  Kept kept;
  kept.stage = std::make_unique<AutogradStage>(probe_plan(dim_, rows_, layers, "sgd"), 0, device_, runtime);
  const auto options = at::TensorOptions().device(device_).dtype(at::kFloat);
  kept.input = at::randn({rows_, dim_}, options).relu_();
  if (input_gradient) kept.input = kept.input.to(compute_type(dtype_)).set_requires_grad(true);
  {
    const Autocast autocast(dtype_, device_.type());
    kept.output = kept.stage->forward(kept.input);
  }
  kept.output_gradient = at::randn({rows_, dim_}, options).to(kept.output.scalar_type());
  kept.backward(false);
  return kept;
}

void AutogradOperations::Kept::backward(bool accumulate) {
  input.mutable_grad().reset();
  if (!accumulate) stage->zero_grad();
  output.backward(output_gradient, /*retain_graph=*/true);
}

AutogradOperations::AutogradOperations(std::int64_t dim, std::int64_t rows, Dtype dtype, c10::Device device,
                                       const RuntimeOptions& runtime)
    : dim_(dim),
      rows_(rows),
      dtype_(dtype),
      device_(device),
      first_(keep(1, false, runtime)),
      middle_(keep(kMiddleLayers, true, runtime)) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  prediction_ = at::randn({rows, dim}, options).to(compute_type(dtype_)).set_requires_grad(true);
  target_ = at::randn({rows, dim}, options);
  if (dtype_ == Dtype::amp_fp16) scaler_.emplace(kScale, device);
}

void AutogradOperations::loss() {
  prediction_.mutable_grad().reset();
  at::Tensor loss;
  {
    const Autocast autocast(dtype_, device_.type());
    loss = microbatch_loss(prediction_, target_, 2 * rows_);
  }
  (scaler_ ? scaler_->scale(loss) : loss).backward();
}

std::vector<ComputeOperation> AutogradOperations::layers_and_loss() {
  const auto key = [&](const char* operation, bool accumulate, bool input_gradient) {
    MeasuredKey layer = layer_key(dim_, rows_, dtype_, operation, accumulate, input_gradient);
    layer.implementation = "autograd";
    return layer;
  };
  std::vector<ComputeOperation> list;
  list.push_back({key("forward", false, true), kMiddleLayers, [this] {
                    const Autocast autocast(dtype_, device_.type());
                    middle_.stage->forward(middle_.input);
                  }});
  for (const bool accumulate : {false, true}) {
    list.push_back(
        {key("backward", accumulate, true), kMiddleLayers, [this, accumulate] { middle_.backward(accumulate); }});
    list.push_back({key("backward", accumulate, false), 1, [this, accumulate] { first_.backward(accumulate); }});
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "autograd";
  loss.dtype = dtype_;
  loss.size = rows_ * dim_;
  list.push_back({loss, 1, [this] { this->loss(); }});
  return list;
}

AutogradOptimizerOperations::AutogradOptimizerOperations(std::int64_t dim, const std::string& optimizer,
                                                         c10::Device device, const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  if (optimizer == "unscale") scaler_.emplace(kScale, device);
  for (const int layers : {1, kMiddleLayers}) {
    const std::string updated_by = optimizer == "unscale" ? "sgd" : optimizer;
    stages_.push_back(std::make_unique<AutogradStage>(probe_plan(dim, 1, layers, updated_by), 0, device, runtime));
    for (at::Tensor parameter : stages_.back()->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
  }
}

std::vector<ComputeOperation> AutogradOptimizerOperations::list() {
  std::vector<ComputeOperation> operations;
  for (const auto& stage : stages_) {
    operations.push_back({optimizer_key("autograd", optimizer_, stage->parameters()), 1, [this, stage = stage.get()] {
                            if (!scaler_) return stage->optimizer_step();
                            scaler_->unscale(stage->gradients());
                            scaler_->update();
                          }});
  }
  return operations;
}

}  // namespace pdl
