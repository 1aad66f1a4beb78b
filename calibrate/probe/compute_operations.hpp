// The operations that a device is probed for, each as something to run and the key of its sample.
//
//   PipelineOperations operations(4096, 512, Dtype::fp32, device, runtime);
//   for (const ComputeOperation& operation : operations.list()) timer.time(operation.work, ...);
//
// They are the runtime's own stages: of 4 layers and of 1 layer, from the middle of a pipeline and from its start
// (whose first layer has no input gradient), a last stage for the loss.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/model/pipeline_stage.hpp"
#include "sim/cost/measured_key.hpp"

namespace pdl {

struct ComputeOperation {
  MeasuredKey key;
  std::int64_t layers = 1;  // how many layers one run covers: its time is divided by them
  std::function<void()> work;
};

/// Three stages of `layers` equal layers each, two micro-batches of `rows` samples.
Plan probe_plan(const Layer& layer, std::int64_t rows, int layers, const std::string& optimizer);

/// Key of a layer of the pipeline program.
MeasuredKey layer_key(const Layer& layer, std::int64_t rows, Dtype dtype, const char* operation, bool accumulate,
                      bool input_gradient);

MeasuredKey optimizer_key(const char* implementation, const std::string& optimizer,
                          const std::vector<at::Tensor>& parameters);

/// Layers dim x dim, micro-batches of `rows` samples, on the current stream of `device`. `dtype`: fp32 or tf32, as
/// LibTorch has been set up for (runtime/device/devices.hpp).
class PipelineOperations {
 public:
  PipelineOperations(std::int64_t dim, std::int64_t rows, Dtype dtype, c10::Device device,
                     const RuntimeOptions& runtime);
  std::vector<ComputeOperation> layers_and_loss();

 private:
  Layer layer_;
  std::int64_t rows_;
  Dtype dtype_;
  std::unique_ptr<PipelineStage> first_, first_long_, middle_, middle_short_, last_;
};

/// Layers of a kind that is row-wise (LayerScaling): of a stage of four, and of the model's first layer. A backward of
/// theirs is as long as its layers together.
class RowWisePipelineOperations {
 public:
  RowWisePipelineOperations(const Layer& layer, std::int64_t rows, c10::Device device, const RuntimeOptions& runtime);
  std::vector<ComputeOperation> list();

 private:
  Layer layer_;
  std::int64_t rows_;
  std::unique_ptr<PipelineStage> first_, middle_;  // no first one for a kind without parameters
};

/// The optimizer over 1 and over 4 layers.
class OptimizerOperations {
 public:
  OptimizerOperations(std::int64_t dim, const std::string& optimizer, c10::Device device,
                      const RuntimeOptions& runtime);
  std::vector<ComputeOperation> list();

 private:
  std::string optimizer_;
  std::vector<std::unique_ptr<PipelineStage>> stages_;
};

/// What a Reducer does with gradients of `numbers` numbers beside the all-reduce, and DataParallel with chunks: a
/// gradient into its bucket, divided by the number of GPUs; out of it again; four tensors into a flat one.
class BucketOperations {
 public:
  BucketOperations(std::int64_t numbers, c10::Device device);
  std::vector<ComputeOperation> list();

 private:
  at::Tensor gradient_, bucket_;
};

}  // namespace pdl
