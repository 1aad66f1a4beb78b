#include "calibrate/probe/compute_operations.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <tuple>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

constexpr int kMiddleLayers = 4;

std::unique_ptr<PipelineStage> make_stage(std::int64_t dim, std::int64_t rows, int layers, int stage,
                                          const std::string& optimizer, c10::Device device,
                                          const RuntimeOptions& runtime) {
  return std::make_unique<PipelineStage>(probe_plan(dim, rows, layers, optimizer), stage, device, runtime);
}

}  // namespace

Plan probe_plan(std::int64_t dim, std::int64_t rows, int layers, const std::string& optimizer) {
  const std::vector<SettingValue> settings = {
      {"gpus", "3", "gpus"},
      {"depth", std::to_string(3 * layers), "depth"},
      {"dim", std::to_string(dim), "dim"},
      {"batch", std::to_string(2 * rows), "rows"},
      {"microbatches", "2", "microbatches"},
      {"optimizer", optimizer, "optimizer"},
      {"schedule", "gpipe", "schedule"},
  };
  return make_plan(parse_run_spec(settings));
}

MeasuredKey layer_key(std::int64_t dim, std::int64_t rows, Dtype dtype, const char* operation, bool accumulate,
                      bool input_gradient) {
  MeasuredKey key;
  key.probe = Probe::layer;
  key.implementation = "pipeline";
  key.operation = operation;
  key.accumulate = accumulate;
  key.input_gradient = input_gradient;
  key.dtype = dtype;
  key.in = key.out = dim;
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
    : dim_(dim),
      rows_(rows),
      dtype_(dtype),
      first_(make_stage(dim, rows, 1, 0, "sgd", device, runtime)),
      first_long_(make_stage(dim, rows, kMiddleLayers, 0, "sgd", device, runtime)),
      middle_(make_stage(dim, rows, kMiddleLayers, 1, "sgd", device, runtime)),
      middle_short_(make_stage(dim, rows, 1, 1, "sgd", device, runtime)),
      last_(make_stage(dim, rows, 1, 2, "sgd", device, runtime)) {
  const c10::InferenceMode without_autograd;
  for (PipelineStage* stage : {first_.get(), first_long_.get(), middle_.get(), middle_short_.get(), last_.get()}) {
    // What a transfer would bring: activations after a ReLU, gradients.
    if (stage != first_.get() && stage != first_long_.get()) at::Tensor(stage->input(0)).normal_().relu_();
    if (stage != last_.get()) at::Tensor(stage->output_gradient(0)).normal_();
    stage->forward(0);
    stage->backward(0, false);
  }
}

std::vector<ComputeOperation> PipelineOperations::layers_and_loss() {
  PipelineStage* middle = middle_.get();
  PipelineStage* first = first_.get();
  PipelineStage* last = last_.get();
  PipelineStage* first_long = first_long_.get();
  PipelineStage* middle_short = middle_short_.get();
  std::vector<ComputeOperation> list;
  list.push_back({layer_key(dim_, rows_, dtype_, "forward", false, true), kMiddleLayers, [=] { middle->forward(0); }});
  list.push_back({layer_key(dim_, rows_, dtype_, "backward_input", false, true), kMiddleLayers,
                  [=] { middle->backward_input(0); }});
  list.push_back(
      {layer_key(dim_, rows_, dtype_, "backward_input", false, false), 1, [=] { first->backward_input(0); }});
  for (const bool accumulate : {false, true}) {
    for (const auto& [stage, input_gradient, layers] : {std::tuple{first, false, 1},
                                                        {first_long, false, kMiddleLayers},
                                                        {middle_short, true, 1},
                                                        {middle, true, kMiddleLayers}}) {
      MeasuredKey key = layer_key(dim_, rows_, dtype_, "backward", accumulate, input_gradient);
      key.layers = layers;
      list.push_back({key, layers, [stage = stage, accumulate] { stage->backward(0, accumulate); }});
    }
    list.push_back({layer_key(dim_, rows_, dtype_, "backward_weight", accumulate, true), kMiddleLayers,
                    [=] { middle->backward_weight(0, accumulate); }});
  }
  MeasuredKey loss;
  loss.probe = Probe::loss;
  loss.implementation = "pipeline";
  loss.dtype = dtype_;
  loss.size = rows_ * dim_;
  list.push_back({loss, 1, [=] { last->loss_gradient(0); }});
  return list;
}

OptimizerOperations::OptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device,
                                         const RuntimeOptions& runtime)
    : optimizer_(optimizer) {
  for (const int layers : {1, kMiddleLayers})
    stages_.push_back(make_stage(dim, 1, layers, 1, optimizer, device, runtime));
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
