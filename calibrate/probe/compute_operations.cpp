#include "calibrate/probe/compute_operations.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <tuple>

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

Plan probe_plan(const Layer& layer, std::int64_t rows, int layers, const std::string& optimizer) {
  const std::vector<SettingValue> settings = {
      {"gpus", "3", "gpus"},
      {"depth", std::to_string(3 * layers), "depth"},
      {"dim", std::to_string(input_numbers(layer)), "dim"},
      {"batch", std::to_string(2 * rows), "rows"},
      {"microbatches", "2", "microbatches"},
      {"optimizer", optimizer, "optimizer"},
      {"schedule", "gpipe", "schedule"},
  };
  RunSpec spec = parse_run_spec(settings);
  spec.model.layers.assign(spec.model.layers.size(), layer);
  return make_plan(spec);
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

PipelineOperations::PipelineOperations(std::int64_t dim, std::int64_t rows, Dtype dtype, c10::Device device,
                                       const RuntimeOptions& runtime)
    : layer_(linear_relu(dim, dim)),
      rows_(rows),
      dtype_(dtype),
      first_(make_stage(layer_, rows, 1, 0, "sgd", device, runtime)),
      first_long_(make_stage(layer_, rows, kMiddleLayers, 0, "sgd", device, runtime)),
      middle_(make_stage(layer_, rows, kMiddleLayers, 1, "sgd", device, runtime)),
      middle_short_(make_stage(layer_, rows, 1, 1, "sgd", device, runtime)),
      last_(make_stage(layer_, rows, 1, 2, "sgd", device, runtime)) {
  const c10::InferenceMode without_autograd;
  for (PipelineStage* stage : {first_.get(), first_long_.get(), middle_.get(), middle_short_.get(), last_.get()})
    run_once(*stage, stage == first_.get() || stage == first_long_.get(), stage == last_.get());
}

std::vector<ComputeOperation> PipelineOperations::layers_and_loss() {
  PipelineStage* middle = middle_.get();
  PipelineStage* first = first_.get();
  PipelineStage* last = last_.get();
  PipelineStage* first_long = first_long_.get();
  PipelineStage* middle_short = middle_short_.get();
  std::vector<ComputeOperation> list;
  list.push_back(
      {layer_key(layer_, rows_, dtype_, "forward", false, true), kMiddleLayers, [=] { middle->forward(0); }});
  list.push_back({layer_key(layer_, rows_, dtype_, "backward_input", false, true), kMiddleLayers,
                  [=] { middle->backward_input(0); }});
  list.push_back(
      {layer_key(layer_, rows_, dtype_, "backward_input", false, false), 1, [=] { first->backward_input(0); }});
  for (const bool accumulate : {false, true}) {
    for (const auto& [stage, input_gradient, layers] : {std::tuple{first, false, 1},
                                                        {first_long, false, kMiddleLayers},
                                                        {middle_short, true, 1},
                                                        {middle, true, kMiddleLayers}}) {
      MeasuredKey key = layer_key(layer_, rows_, dtype_, "backward", accumulate, input_gradient);
      key.layers = layers;
      list.push_back({key, layers, [stage = stage, accumulate] { stage->backward(0, accumulate); }});
    }
    list.push_back({layer_key(layer_, rows_, dtype_, "backward_weight", accumulate, true), kMiddleLayers,
                    [=] { middle->backward_weight(0, accumulate); }});
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "pipeline";
  loss.dtype = dtype_;
  loss.size = rows_ * output_numbers(layer_);
  list.push_back({loss, 1, [=] { last->loss_gradient(0); }});
  return list;
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

OptimizerOperations::OptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device,
                                         const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  for (const int layers : {1, kMiddleLayers})
    stages_.push_back(make_stage(linear_relu(dim, dim), 1, layers, 1, optimizer, device, runtime));
  const c10::InferenceMode without_autograd;
  for (const auto& stage : stages_) {
    for (at::Tensor gradient : stage->gradients()) gradient.zero_();  // parameters stay what they are
  }
}

std::vector<ComputeOperation> OptimizerOperations::list() {
  std::vector<ComputeOperation> operations;
  for (const auto& stage : stages_) {
    operations.push_back({optimizer_key("pipeline", optimizer_, stage->parameters()), 1,
                          [stage = stage.get()] { stage->optimizer_step(); }});
  }
  return operations;
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
