#include "calibrate/probe/compute_operations.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

constexpr int kMiddleLayers = 4;

std::unique_ptr<PipelineStage> make_stage(const Layer& layer, std::int64_t rows, int layers, int stage,
                                          const std::string& optimizer, c10::Device device,
                                          const RuntimeOptions& runtime) {
  return std::make_unique<PipelineStage>(probe_plan(layer, rows, layers, optimizer), stage, device, runtime);
}

/// What transfers would bring (activations after a ReLU, gradients), and a forward and a backward.
void run_once(PipelineStage& stage, bool first, bool last) {
  if (!first) at::Tensor(stage.input(0)).normal_().relu_();
  if (!last) at::Tensor(stage.output_gradient(0)).normal_();
  stage.forward(0);
  stage.backward(0, false);
}

}  // namespace

bool is_chain(const Layer& layer) {
  return input_numbers(layer) == output_numbers(layer);
}

Plan probe_plan(const std::vector<Layer>& stage, std::int64_t rows, const std::string& optimizer) {
  constexpr std::int64_t kStages = 3;
  const std::vector<SettingValue> settings = {
      {"gpus", std::to_string(kStages), "gpus"},
      {"depth", std::to_string(kStages * static_cast<std::int64_t>(stage.size())), "depth"},
      {"dim", std::to_string(input_numbers(stage.front())), "dim"},
      {"batch", std::to_string(2 * rows), "rows"},
      {"microbatches", "2", "microbatches"},
      {"optimizer", optimizer, "optimizer"},
      {"schedule", "gpipe", "schedule"},
  };
  RunSpec spec = parse_run_spec(settings);
  spec.model.layers.clear();
  for (std::int64_t i = 0; i < kStages; ++i)
    spec.model.layers.insert(spec.model.layers.end(), stage.begin(), stage.end());
  return make_plan(spec);
}

Plan probe_plan(const Layer& layer, std::int64_t rows, int layers, const std::string& optimizer) {
  return probe_plan(std::vector<Layer>(static_cast<std::size_t>(layers), layer), rows, optimizer);
}

MeasuredKey layer_key(const Layer& layer, std::int64_t rows, Dtype dtype, const char* operation, bool accumulate,
                      bool input_gradient) {
  MeasuredKey key;
  key.probe = Probe::layer;
  key.implementation = "pipeline";
  key.operation = operation;
  key.accumulate = accumulate;
  key.input_gradient = input_gradient;
  key.dtype = dtype;
  key.layer = layer;
  key.size = rows;
  return key;
}

MeasuredKey optimizer_key(const char* implementation, const std::string& optimizer,
                          const std::vector<at::Tensor>& parameters) {
  MeasuredKey key;
  key.probe = Probe::optimizer;
  key.implementation = implementation;
  key.optimizer = optimizer;
  for (const at::Tensor& parameter : parameters) key.size += parameter.numel();
  return key;
}

MeasuredKey loss_key(const char* implementation, std::int64_t rows, std::int64_t width, Dtype dtype) {
  MeasuredKey key;
  key.probe = Probe::loss;
  key.implementation = implementation;
  key.dtype = dtype;
  key.size = rows * width;
  return key;
}

PipelineOperations::PipelineOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                                       const RuntimeOptions& runtime)
    : layer_(layer), rows_(rows), dtype_(dtype) {
  first_ = make_stages(1, 1, 0, device, runtime);
  if (is_chain(layer)) {
    first_long_ = make_stages(1, kMiddleLayers, 0, device, runtime);
    middle_ = make_stages(1, kMiddleLayers, 1, device, runtime);
    middle_short_ = make_stages(1, 1, 1, device, runtime);
  } else {
    middle_ = make_stages(kMiddleLayers, 1, 1, device, runtime);
  }
}

PipelineOperations::Stages PipelineOperations::make_stages(int count, int layers, int stage, c10::Device device,
                                                           const RuntimeOptions& runtime) const {
  const c10::InferenceMode without_autograd;
  Stages stages;
  stages.layers = count * layers;
  for (int i = 0; i < count; ++i) {
    stages.list.push_back(make_stage(layer_, rows_, layers, stage, "sgd", device, runtime));
    run_once(*stages.list.back(), /*first=*/stage == 0, /*last=*/false);
  }
  return stages;
}

MeasuredKey PipelineOperations::key(const char* operation, bool accumulate, bool input_gradient) const {
  return layer_key(layer_, rows_, dtype_, operation, accumulate, input_gradient);
}

std::vector<ComputeOperation> PipelineOperations::backwards(bool accumulate) {
  const auto of_length = [&](const Stages& stages, bool input_gradient, std::int64_t length) {
    MeasuredKey whole = key("backward", accumulate, input_gradient);
    whole.layers = length;
    return ComputeOperation{whole, stages.layers, [&stages, accumulate] {
                              for (const auto& stage : stages.list) stage->backward(0, accumulate);
                            }};
  };
  std::vector<ComputeOperation> list;
  list.push_back(of_length(first_, false, 1));
  if (is_chain(layer_)) {
    list.push_back(of_length(first_long_, false, kMiddleLayers));
    list.push_back(of_length(middle_short_, true, 1));
    list.push_back(of_length(middle_, true, kMiddleLayers));
  } else {
    list.push_back(of_length(middle_, true, 1));
  }
  return list;
}

std::vector<ComputeOperation> PipelineOperations::layers() {
  const std::int64_t layers = middle_.layers;
  std::vector<ComputeOperation> list;
  list.push_back({key("forward", false, true), layers, [this] {
                    for (const auto& stage : middle_.list) stage->forward(0);
                  }});
  list.push_back({key("backward_input", false, true), layers, [this] {
                    for (const auto& stage : middle_.list) stage->backward_input(0);
                  }});
  list.push_back({key("backward_input", false, false), 1, [this] { first_.list.front()->backward_input(0); }});
  for (const bool accumulate : {false, true}) {
    for (ComputeOperation& backward : backwards(accumulate)) list.push_back(std::move(backward));
    list.push_back({key("backward_weight", accumulate, true), layers, [this, accumulate] {
                      for (const auto& stage : middle_.list) stage->backward_weight(0, accumulate);
                    }});
  }
  return list;
}

/// The loss is of the last layer's results alone: its weights are as few as can be.
PipelineLoss::PipelineLoss(std::int64_t rows, std::int64_t width, Dtype dtype, c10::Device device,
                           const RuntimeOptions& runtime)
    : key_(loss_key("pipeline", rows, width, dtype)),
      last_(make_stage(linear_relu(1, width), rows, 1, 2, "sgd", device, runtime)) {
  const c10::InferenceMode without_autograd;
  run_once(*last_, /*first=*/false, /*last=*/true);
}

ComputeOperation PipelineLoss::operation() {
  return {key_, 1, [last = last_.get()] { last->loss_gradient(0); }};
}

RowWisePipelineOperations::RowWisePipelineOperations(const Layer& layer, std::int64_t rows, c10::Device device,
                                                     const RuntimeOptions& runtime)
    : layer_(layer), rows_(rows), middle_(make_stage(layer, rows, kMiddleLayers, 1, "sgd", device, runtime)) {
  const c10::InferenceMode without_autograd;
  run_once(*middle_, /*first=*/false, /*last=*/false);
  if (!has_parameters(layer)) return;
  first_ = make_stage(layer, rows, 1, 0, "sgd", device, runtime);
  run_once(*first_, /*first=*/true, /*last=*/false);
}

std::vector<ComputeOperation> RowWisePipelineOperations::list() {
  PipelineStage* middle = middle_.get();
  PipelineStage* first = first_.get();
  const auto key = [&](const char* operation, bool accumulate, bool input_gradient) {
    return layer_key(layer_, rows_, Dtype::fp32, operation, accumulate, input_gradient);
  };
  std::vector<ComputeOperation> list;
  list.push_back({key("forward", false, true), kMiddleLayers, [=] { middle->forward(0); }});
  list.push_back({key("backward_input", false, true), kMiddleLayers, [=] { middle->backward_input(0); }});
  for (const bool accumulate : {false, true}) {
    if (accumulate && !first) break;
    list.push_back({key("backward", accumulate, true), kMiddleLayers, [=] { middle->backward(0, accumulate); }});
    if (!first) break;
    list.push_back({key("backward", accumulate, false), 1, [=] { first->backward(0, accumulate); }});
    list.push_back(
        {key("backward_weight", accumulate, true), kMiddleLayers, [=] { middle->backward_weight(0, accumulate); }});
  }
  return list;
}

PipelineOptimizer::PipelineOptimizer(const std::vector<Layer>& layers, const std::string& optimizer, c10::Device device,
                                     const RuntimeOptions& runtime)
    : optimizer_(optimizer),
      stage_(std::make_unique<PipelineStage>(probe_plan(layers, 1, optimizer), 1, device, runtime)) {
  const c10::InferenceMode without_autograd;
  for (at::Tensor gradient : stage_->gradients()) gradient.normal_();  // of 0 roots and quotients take longer
}

ComputeOperation PipelineOptimizer::operation() {
  return {optimizer_key("pipeline", optimizer_, stage_->parameters()), 1,
          [stage = stage_.get()] { stage->optimizer_step(); }};
}

BucketOperations::BucketOperations(std::int64_t numbers, c10::Device device) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  gradient_ = at::randn({numbers}, options);
  bucket_ = at::zeros({numbers}, options);
}

std::vector<ComputeOperation> BucketOperations::list() {
  const auto key = [&](const char* operation) {
    MeasuredKey bucket;
    bucket.probe = Probe::bucket;
    bucket.operation = operation;
    bucket.size = gradient_.numel();
    return bucket;
  };
  // As c10d's Reducer: a number on the CPU that takes part as a scalar.
  const at::Tensor share = at::scalar_tensor(0.25, at::kDouble);
  const std::vector<at::Tensor> parts = gradient_.chunk(4);
  return {{key("copy_in"), 1, [this, share] { at::mul_out(bucket_, gradient_, share); }},
          {key("copy_out"), 1, [this] { gradient_.copy_(bucket_); }},
          {key("join"), 1, [parts] { at::cat(parts); }}};
}

}  // namespace pdl
