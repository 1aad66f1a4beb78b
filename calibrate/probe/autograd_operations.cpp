#include "calibrate/probe/autograd_operations.hpp"

#include <ATen/ATen.h>

namespace pdl {
namespace {

constexpr int kMiddleLayers = 4;

}  // namespace

AutogradOperations::Kept AutogradOperations::keep(std::int64_t dim, std::int64_t rows, int layers, bool input_gradient,
                                                  c10::Device device, const RuntimeOptions& runtime) {
  Kept kept;
  kept.stage = std::make_unique<AutogradStage>(probe_plan(dim, rows, layers, "sgd"), 0, device, runtime);
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  kept.input = at::randn({rows, dim}, options).relu_();
  kept.input.set_requires_grad(input_gradient);
  kept.output = kept.stage->forward(kept.input);
  kept.output_gradient = at::randn({rows, dim}, options);
  kept.backward(false);
  return kept;
}

void AutogradOperations::Kept::backward(bool accumulate) {
  input.mutable_grad().reset();
  if (!accumulate) stage->zero_grad();
  output.backward(output_gradient, /*retain_graph=*/true);
}

AutogradOperations::AutogradOperations(std::int64_t dim, std::int64_t rows, c10::Device device, const RuntimeOptions& runtime)
    : dim_(dim),
      rows_(rows),
      first_(keep(dim, rows, 1, false, device, runtime)),
      middle_(keep(dim, rows, kMiddleLayers, true, device, runtime)) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  prediction_ = at::randn({rows, dim}, options).set_requires_grad(true);
  target_ = at::randn({rows, dim}, options);
}

std::vector<ComputeOperation> AutogradOperations::layers_and_loss() {
  const auto key = [&](const char* operation, bool accumulate, bool input_gradient) {
    MeasuredKey layer = layer_key(dim_, rows_, operation, accumulate, input_gradient);
    layer.implementation = "autograd";
    return layer;
  };
  std::vector<ComputeOperation> list;
  list.push_back({key("forward", false, true), kMiddleLayers, [this] { middle_.stage->forward(middle_.input); }});
  for (const bool accumulate : {false, true}) {
    list.push_back({key("backward", accumulate, true), kMiddleLayers, [this, accumulate] { middle_.backward(accumulate); }});
    list.push_back({key("backward", accumulate, false), 1, [this, accumulate] { first_.backward(accumulate); }});
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "autograd";
  loss.dtype = "fp32";
  loss.size = rows_ * dim_;
  list.push_back({loss, 1, [this] {
                    prediction_.mutable_grad().reset();
                    microbatch_loss(prediction_, target_, 2 * rows_).backward();
                  }});
  return list;
}

AutogradOptimizerOperations::AutogradOptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device,
                                                         const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  for (const int layers : {1, kMiddleLayers}) {
    stages_.push_back(std::make_unique<AutogradStage>(probe_plan(dim, 1, layers, optimizer), 0, device, runtime));
    for (at::Tensor parameter : stages_.back()->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
  }
}

std::vector<ComputeOperation> AutogradOptimizerOperations::list() {
  std::vector<ComputeOperation> operations;
  for (const auto& stage : stages_) {
    operations.push_back({optimizer_key("autograd", optimizer_, stage->parameters()), 1,
                          [stage = stage.get()] { stage->optimizer_step(); }});
  }
  return operations;
}

}  // namespace pdl
