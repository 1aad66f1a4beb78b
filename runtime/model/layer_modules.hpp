// Layers in LibTorch, by kind: one factory for the programs of autograd and for the stages of a pipeline.
//
//   std::vector<at::Tensor> parameters = make_parameters(layer, 3, device, seed);    // of layer 3 of the model
//   at::Tensor y = forward_layers(model.layers, x, parameters);                      // autograd differentiates it
//   std::unique_ptr<PipelineLayer> l = make_pipeline_layer({layer, 3, ...});         // forward and gradients by hand
//
// A kind is a row of one of the tables of runtime/model/layer_module.hpp; what it is made of and what it keeps is said
// in sim/model/layers. A kind that is made of others is what those make together, one after another.
// Not here: buffers (runtime/model/pipeline_stage.hpp), optimizers, autocast's scope (runtime/model/autocast.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/model/matrix_products.hpp"
#include "sim/model/layer.hpp"

namespace pdl {

/// Allocated and drawn as the kind's module of PyTorch draws them (embeddings as GPT-2's), in the order of
/// parameter_tensors(layer). `index`: of the layer in the model; each has a random generator of its own.
std::vector<at::Tensor> make_parameters(const Layer& layer, std::int64_t index, at::Device device, std::uint64_t seed);

/// The layers one after another, as LibTorch's modules compute them. `x`: rows x numbers; of a model that takes tokens
/// these, whole numbers. `parameters`: of all of them, in order. A tied head takes the first of them: an embedding must
/// be the first of these layers.
at::Tensor forward_layers(std::span<const Layer> layers, at::Tensor x, std::span<const at::Tensor> parameters);

/// What the forward of a layer reads and writes: rows x width.
struct LayerForward {
  const at::Tensor& input;
  at::Tensor& result;
  std::span<const at::Tensor> kept;  // flat, as many as PipelineTensors says: for the backward
  std::uint64_t draw = 0;            // which forward this is: the same where one is done again
  const at::Tensor other = {};       // the second input, of what is inside of others
};

/// What the backward of a layer reads. `gradient` is that of the result times 1 / factor; it may be changed in place.
struct LayerBackward {
  const at::Tensor& input;
  const at::Tensor& result;
  std::span<const at::Tensor> kept;
  at::Tensor& gradient;
  const at::Tensor& gradient_transposed;             // a view
  const at::Tensor& ones;                            // rows, times PipelineTensors::ones_of_a_row
  double factor = 1;                                 // not 1 only where the layer takes_factor()
  std::span<const at::Tensor> inner_gradients = {};  // flat, as many as PipelineTensors says: until weight_gradient
  const at::Tensor other = {};                       // the second input, of what is inside of others
};

/// A layer of a pipeline's stage, without autograd, into buffers of the stage. Launched on the current stream.
class PipelineLayer {
 public:
  virtual ~PipelineLayer() = default;
  virtual void forward(const LayerForward& at) = 0;
  /// What both gradients need; the first of the three calls of a backward.
  virtual void begin_backward(const LayerBackward&) {}
  virtual void input_gradient(const LayerBackward& at, at::Tensor& gradient) = 0;
  /// Of a layer that has two inputs.
  virtual void input_gradients(const LayerBackward&, at::Tensor& /*gradient*/, at::Tensor& /*other_gradient*/) {}
  /// Not called for a layer without parameters.
  virtual void weight_gradient(const LayerBackward&, bool /*accumulate*/) {}
  /// The gradients' products take a factor: no pass of its own.
  virtual bool takes_factor() const { return false; }
  /// Under autocast casts them anew: before the first forward, and after each step of the optimizer.
  virtual void parameters_changed() {}
  /// Before the first step: chooses kernels for tensors of this size. `gradient`: of the input, undefined where there
  /// is none.
  virtual void tune(const LayerForward&, const LayerBackward&, at::Tensor& /*gradient*/, bool /*accumulates*/) {}
};

/// What a layer of a pipeline is made with: its parameters and their gradients, and what the stages of a worker share.
struct PipelineLayerParts {
  Layer layer;
  std::int64_t index = 0;  // as of make_parameters
  std::uint64_t seed = 0;
  at::Device device;
  std::vector<at::Tensor> parameters, gradients;
  MatrixProducts& products;
  MatrixProducts& weight_products;
  at::Tensor tied_weight = {}, tied_gradient = {};  // of the embedding, for a tied head
  bool embedding_is_tied = false;                   // the gradient of its weight is the head's first
  Dtype dtype = Dtype::fp32;
  std::int64_t input_number_bytes = kBytesPerNumber;  // of the activation that comes
};

std::unique_ptr<PipelineLayer> make_pipeline_layer(const PipelineLayerParts& parts);

/// The index of what is inside of a layer, for all that is drawn: no two in a model are alike.
std::int64_t inner_index(std::int64_t layer_index, std::size_t place);

}  // namespace pdl
