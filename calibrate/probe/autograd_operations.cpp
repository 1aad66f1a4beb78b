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

/// So many that each gets what the first one gets.
int middle_layers(const Layer& layer, Dtype dtype) {
  AutogradCase at;
  at.dtype = dtype;
  at.input_number_bytes = is_amp(dtype) ? kBytesPerNumber / 2 : kBytesPerNumber;
  return autograd_tensors(layer, at).result_number_bytes == at.input_number_bytes ? kMiddleLayers : 1;
}

}  // namespace

AutogradOperations::Kept AutogradOperations::keep(int layers, bool input_gradient,
                                                  const RuntimeOptions& runtime) const {
  Kept kept;
  kept.stage = std::make_unique<AutogradStage>(probe_plan(layer_, rows_, layers, "sgd"), 0, device_, runtime);
  const auto options = at::TensorOptions().device(device_).dtype(at::kFloat);
  kept.input = at::randn({rows_, input_numbers(layer_)}, options).relu_();
  if (input_gradient) kept.input = kept.input.to(compute_type(dtype_)).set_requires_grad(true);
  {
    const Autocast autocast(dtype_, device_.type());
    kept.output = kept.stage->forward(kept.input);
  }
  kept.output_gradient = at::randn({rows_, output_numbers(layer_)}, options).to(kept.output.scalar_type());
  kept.backward(false);
  return kept;
}

void AutogradOperations::Kept::backward(bool accumulate) {
  input.mutable_grad().reset();
  if (!accumulate) stage->zero_grad();
  output.backward(output_gradient, /*retain_graph=*/true);
}

AutogradOperations::AutogradOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                                       const RuntimeOptions& runtime)
    : layer_(layer),
      rows_(rows),
      dtype_(dtype),
      device_(device),
      middle_layers_(middle_layers(layer, dtype_)),
      middle_(keep(middle_layers_, true, runtime)) {
  const bool same_in_fp32 = layer.kind->scaling == LayerScaling::row_wise && is_amp(dtype_);
  if (has_parameters(layer) && !same_in_fp32) first_ = keep(1, false, runtime);
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const std::int64_t width = output_numbers(layer);
  prediction_ = at::randn({rows, width}, options).to(compute_type(dtype_)).set_requires_grad(true);
  target_ = at::randn({rows, width}, options);
  if (dtype_ == Dtype::amp_fp16) scaler_.emplace(kScale, device);
}

void AutogradOperations::run_loss() {
  prediction_.mutable_grad().reset();
  at::Tensor loss;
  {
    const Autocast autocast(dtype_, device_.type());
    loss = microbatch_loss(prediction_, target_, 2 * rows_);
  }
  (scaler_ ? scaler_->scale(loss) : loss).backward();
}

std::vector<ComputeOperation> AutogradOperations::layers() {
  const auto key = [&](const char* operation, bool accumulate, bool input_gradient) {
    MeasuredKey layer = layer_key(layer_, rows_, dtype_, operation, accumulate, input_gradient);
    layer.implementation = "autograd";
    return layer;
  };
  std::vector<ComputeOperation> list;
  list.push_back({key("forward", false, true), middle_layers_, [this] {
                    const Autocast autocast(dtype_, device_.type());
                    middle_.stage->forward(middle_.input);
                  }});
  for (const bool accumulate : {false, true}) {
    if (accumulate && !has_parameters(layer_)) break;
    list.push_back(
        {key("backward", accumulate, true), middle_layers_, [this, accumulate] { middle_.backward(accumulate); }});
    if (!first_.stage) continue;
    list.push_back({key("backward", accumulate, false), 1, [this, accumulate] { first_.backward(accumulate); }});
  }
  return list;
}

ComputeOperation AutogradOperations::loss() {
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "autograd";
  loss.dtype = dtype_;
  loss.size = rows_ * output_numbers(layer_);
  return {loss, 1, [this] { run_loss(); }};
}

AutogradOptimizerOperations::AutogradOptimizerOperations(std::int64_t dim, const std::string& optimizer,
                                                         c10::Device device, const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  if (optimizer == "unscale") scaler_.emplace(kScale, device);
  for (const int layers : {1, kMiddleLayers}) {
    const std::string updated_by = optimizer == "unscale" ? "sgd" : optimizer;
    stages_.push_back(
        std::make_unique<AutogradStage>(probe_plan(linear_relu(dim, dim), 1, layers, updated_by), 0, device, runtime));
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
