// Layers that are made of others: what follows for the whole from what is inside (LayerKind::inner).
//
//   gpt_block        input -> layer_norm -> linear -> attention -> linear -> sum -> layer_norm -> ... -> sum
//                      |__________________________________________________^  |_______________________^
//
//   inner_layers(block)                     // these, each with what it takes and how many rows of it a row is
//   leaves_of(block, 3, Dtype::amp_bf16, 4)  // those that are priced, of layer 3 of a model
//
// Under autocast a sum is in the larger type of what goes into it, so that behind an embedding in fp32 all sums are.
//
// Units: counts of numbers; bytes where the name says so. Not here: what is inside which kind (sim/model/layers/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/model/layer.hpp"

namespace pdl {

/// In the order of the forward: of a layer that is made of others those, else itself alone.
std::vector<InnerLayer> inner_layers(const Layer& layer);

/// Bytes of a number of what each inner layer gives, by its place from 1 on; [0] of what goes into the whole.
std::vector<std::int64_t> inner_number_bytes(const std::vector<InnerLayer>& inner, Dtype dtype,
                                             std::int64_t input_number_bytes);

/// Of InnerLayer::from: its place among what goes into the whole, 0, and the results of the inner layers.
inline std::size_t place_of(int from) {
  return static_cast<std::size_t>(from + 1);
}

/// By place: the last inner layer that takes what stands there; as many as there are layers: none does.
std::vector<std::size_t> last_takers(const std::vector<InnerLayer>& inner);

/// Of all of them.
std::int64_t bytes_of(const std::vector<TensorSize>& tensors);

/// One that is priced, in its place in a model.
struct Leaf {
  Layer layer;
  std::int64_t rows = 1;                        // for each sample
  std::int32_t index = 0;                       // of the model's layer that it is, or is in
  std::int64_t number_bytes = kBytesPerNumber;  // of what goes into it
  std::int64_t result_number_bytes = kBytesPerNumber;
  bool begins_layer = true;    // takes what goes into the model's layer
  std::string_view part = {};  // of a block: "attention", "mlp"
  bool operator==(const Leaf&) const = default;
};

/// The type that it computes in: what is not multiplied in that of what comes, which autocast leaves in fp32 as it is.
Dtype dtype_of(const Leaf& leaf, Dtype dtype);

/// No module: cast, gradient_sum.
bool is_between_modules(const Layer& leaf);

/// Of one layer of a model, in the order of the forward, with what no module is:
///   cast          before a matrix product of numbers in fp32 under autocast, but for what goes into the model: each
///                 product casts for itself, autocast keeps casts of parameters alone
///   gradient_sum  behind what several take, one fewer than those
std::vector<Leaf> leaves_of(const Layer& layer, std::int32_t index, Dtype dtype, std::int64_t input_number_bytes);

/// Of all layers of a model, and where those of each layer begin; one more at the end.
struct ModelLeaves {
  std::vector<Leaf> all;
  std::vector<std::int32_t> first;
};
ModelLeaves leaves_of(const std::vector<Layer>& layers, Dtype dtype, const std::vector<std::int64_t>& number_bytes);

std::vector<ParameterTensor> inner_parameter_tensors(const Layer& layer);
double inner_flops(const Layer& layer, const LayerWork& work);
double inner_bytes(const Layer& layer, const LayerWork& work);
/// Tensors that two inner layers keep are there once. What is not kept is temporary, as far as there is more at once
/// than all that is kept.
AutogradTensors inner_autograd_tensors(const Layer& layer, const AutogradCase& at);
/// A pipeline's result is the memory of what goes in: split.
bool gives_view(const Layer& layer);

/// The gradient of its result is that of what goes in, number by number: split, a sum, learned positions.
bool passes_gradient(const Layer& layer);

/// By inner layer: a pipeline's gradient of its result is that of the one that alone takes it, which passes its own on;
/// of the last one, what comes to the whole. Else it is a tensor of its own, as where it is of another type.
/// `number_bytes`: inner_number_bytes().
std::vector<bool> gradient_is_passed(const std::vector<InnerLayer>& inner,
                                     const std::vector<std::int64_t>& number_bytes);

/// Of each inner layer its result, unless it is the whole's or a view, and then what it keeps itself; of each inner
/// result in this order its gradient, unless it is passed. What is there for a moment, the largest of it, is temporary.
PipelineTensors inner_pipeline_tensors(const Layer& layer, const PipelineCase& at);

}  // namespace pdl
