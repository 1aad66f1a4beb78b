#include "calibrate/probe/autograd_operations.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

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
  if (!is_chain(layer)) return kMiddleLayers;
  AutogradCase at;
  at.dtype = dtype;
  at.input_number_bytes = is_amp(dtype) ? kBytesPerNumber / 2 : kBytesPerNumber;
  return autograd_tensors(layer, at).result_number_bytes == at.input_number_bytes ? kMiddleLayers : 1;
}

}  // namespace

AutogradOperations::Kept AutogradOperations::keep(int stages, int layers, bool input_gradient,
                                                  const RuntimeOptions& runtime) const {
  const auto options = at::TensorOptions().device(device_).dtype(at::kFloat);
  Kept kept;
  for (int i = 0; i < stages; ++i) {
    kept.stages.push_back(
        std::make_unique<AutogradStage>(probe_plan(layer_, rows_, layers, "sgd"), 0, device_, runtime));
    at::Tensor input = at::randn({rows_, input_numbers(layer_)}, options).relu_();
    if (input_gradient) input = input.to(compute_type(dtype_)).set_requires_grad(true);
    kept.inputs.push_back(std::move(input));
  }
  {
    const Autocast autocast(dtype_, device_.type());
    for (int i = 0; i < stages; ++i) kept.outputs.push_back(kept.stages[i]->forward(kept.inputs[i]));
  }
  for (const at::Tensor& output : kept.outputs)
    kept.output_gradients.push_back(at::randn({rows_, output_numbers(layer_)}, options).to(output.scalar_type()));
  kept.backward(false);
  return kept;
}

void AutogradOperations::Kept::forward() {
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i]->forward(inputs[i]);
}

void AutogradOperations::Kept::backward(bool accumulate) {
  for (at::Tensor& input : inputs) input.mutable_grad().reset();
  for (const auto& stage : stages) {
    if (!accumulate) stage->zero_grad();
  }
  torch::autograd::backward(outputs, output_gradients, /*retain_graph=*/true);
}

AutogradOperations::AutogradOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                                       const RuntimeOptions& runtime)
    : layer_(layer),
      rows_(rows),
      dtype_(dtype),
      device_(device),
      middle_layers_(middle_layers(layer, dtype_)),
      middle_(is_chain(layer) ? keep(1, middle_layers_, true, runtime) : keep(middle_layers_, 1, true, runtime)) {
  const bool same_in_fp32 = layer.kind->scaling == LayerScaling::row_wise && is_amp(dtype_);
  if (has_parameters(layer) && !same_in_fp32) first_ = keep(1, 1, false, runtime);
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
                    middle_.forward();
                  }});
  for (const bool accumulate : {false, true}) {
    if (accumulate && !has_parameters(layer_)) break;
    list.push_back(
        {key("backward", accumulate, true), middle_layers_, [this, accumulate] { middle_.backward(accumulate); }});
    if (first_.stages.empty()) continue;
    list.push_back({key("backward", accumulate, false), 1, [this, accumulate] { first_.backward(accumulate); }});
  }
  return list;
}

AutogradLoss::AutogradLoss(std::int64_t rows, std::int64_t width, Dtype dtype, c10::Device device)
    : rows_(rows), width_(width), dtype_(dtype) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  prediction_ = at::randn({rows, width}, options).to(compute_type(dtype_)).set_requires_grad(true);
  target_ = at::randn({rows, width}, options);
  if (dtype_ == Dtype::amp_fp16) scaler_.emplace(kScale, device);
}

void AutogradLoss::run() {
  prediction_.mutable_grad().reset();
  at::Tensor loss;
  {
    const Autocast autocast(dtype_, prediction_.device().type());
    loss = microbatch_loss(prediction_, target_, 2 * rows_);
  }
  (scaler_ ? scaler_->scale(loss) : loss).backward();
}

ComputeOperation AutogradLoss::operation() {
  return {loss_key("autograd", rows_, width_, dtype_), 1, [this] { run(); }};
}

AutogradOptimizer::AutogradOptimizer(const std::vector<Layer>& layers, const std::string& optimizer, c10::Device device,
                                     const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  if (optimizer == "unscale") scaler_.emplace(kScale, device);
  const std::string updated_by = optimizer == "unscale" ? "sgd" : optimizer;
  stage_ = std::make_unique<AutogradStage>(probe_plan(layers, 1, updated_by), 0, device, runtime);
  // Not of 0: square roots and quotients of 0 go the way of special cases. AdamW's two kernels of them took 7 and 26 %
  // longer so than those beside them that move as many bytes (H200, 2026-11-30).
  for (at::Tensor parameter : stage_->parameters()) parameter.mutable_grad() = at::randn_like(parameter);
}

ComputeOperation AutogradOptimizer::operation() {
  return {optimizer_key("autograd", optimizer_, stage_->parameters()), 1, [this] {
            if (!scaler_) return stage_->optimizer_step();
            scaler_->unscale(stage_->gradients());
            scaler_->update();
          }};
}

}  // namespace pdl
