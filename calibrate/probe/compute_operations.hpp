// The operations that a device is probed for, each as something to run and the key of its sample.
//
//   PipelineOperations operations(linear_relu(4096, 4096), 512, Dtype::fp32, device, runtime);
//   for (const ComputeOperation& operation : operations.layers()) timer.time(operation.work, ...);
//
// They are the runtime's own stages: of 4 layers and of 1 layer, from the middle of a pipeline and from its start
// (whose first layer has no input gradient), a last stage for the loss.
//
// Layers of in x out that differ are no chain: in place of a stage of 4 there are 4 stages of 1, one run after another,
// so that their weights come from memory as well.
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

/// Can one of these layers follow another?
bool is_chain(const Layer& layer);

/// Three stages of these layers each, two micro-batches of `rows` samples. A stage is to be used by itself: its last
/// layer's results need not fit the first layer of the next.
Plan probe_plan(const std::vector<Layer>& stage, std::int64_t rows, const std::string& optimizer);
/// The same of `layers` equal layers.
Plan probe_plan(const Layer& layer, std::int64_t rows, int layers, const std::string& optimizer);

/// Key of a layer of the pipeline program.
MeasuredKey layer_key(const Layer& layer, std::int64_t rows, Dtype dtype, const char* operation, bool accumulate,
                      bool input_gradient);

MeasuredKey optimizer_key(const char* implementation, const std::string& optimizer,
                          const std::vector<at::Tensor>& parameters);

/// Key of the loss of rows x width numbers.
MeasuredKey loss_key(const char* implementation, std::int64_t rows, std::int64_t width, Dtype dtype);

/// Layers of a kind of matrix products (LayerScaling), micro-batches of `rows` samples, on the current stream of
/// `device`. `dtype`: fp32 or tf32, as LibTorch has been set up for (runtime/device/devices.hpp). Whole backwards are
/// of stages of 1 and of 4 layers (MeasuredKey::layers); of 1 alone where the layers are no chain.
class PipelineOperations {
 public:
  PipelineOperations(const Layer& layer, std::int64_t rows, Dtype dtype, c10::Device device,
                     const RuntimeOptions& runtime);
  std::vector<ComputeOperation> layers();

 private:
  /// Run one after another.
  struct Stages {
    std::vector<std::unique_ptr<PipelineStage>> list;
    std::int64_t layers = 0;  // of all together
  };
  Stages make_stages(int count, int layers, int stage, c10::Device device, const RuntimeOptions& runtime) const;
  MeasuredKey key(const char* operation, bool accumulate, bool input_gradient) const;
  std::vector<ComputeOperation> backwards(bool accumulate);

  Layer layer_;
  std::int64_t rows_;
  Dtype dtype_;
  Stages first_, first_long_, middle_, middle_short_;  // the long one only of a chain
};

/// The loss of the last stage, of rows x width numbers.
class PipelineLoss {
 public:
  PipelineLoss(std::int64_t rows, std::int64_t width, Dtype dtype, c10::Device device, const RuntimeOptions& runtime);
  ComputeOperation operation();

 private:
  MeasuredKey key_;
  std::unique_ptr<PipelineStage> last_;
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

/// The optimizer over all parameters of these layers.
class PipelineOptimizer {
 public:
  PipelineOptimizer(const std::vector<Layer>& layers, const std::string& optimizer, c10::Device device,
                    const RuntimeOptions& runtime);
  ComputeOperation operation();

 private:
  std::string optimizer_;
  std::unique_ptr<PipelineStage> stage_;
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
