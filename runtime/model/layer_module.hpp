// The tables behind runtime/model/layer_modules.hpp: for each kind, also of those that are inside of others only, how
// its parameters are drawn, what autograd sees of it and what a pipeline runs. A table a theme:
//
//   linear_modules.cpp        linear, linear_relu, linear_no_bias
//   norm_modules.cpp          layer_norm, rms_norm
//   elementwise_modules.cpp   gelu, gelu_tanh, silu, dropout, softmax, sum, product, split
//   embedding_modules.cpp     embedding, position_embedding
//   attention_modules.cpp     scaled_dot_product, rotary
//
// Kinds that are made of others are in no table: autograd_layers.cpp and composed_layer.cpp chain what is inside.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/model/layer_modules.hpp"

namespace pdl {

using Tensors = std::span<const at::Tensor>;

/// What a layer gives: one tensor; rotary gives two, queries and keys.
struct LayerValue {
  at::Tensor tensor;
  at::Tensor second = {};
};

/// What the forward of a module takes: rows x numbers, as far as nothing else is said.
struct ModuleForward {
  const Layer& layer;
  const LayerValue& input;
  const at::Tensor& other;  // the second input; undefined: there is none
  Tensors parameters;
  const at::Tensor& x() const { return input.tensor; }
};

struct LayerModule {
  std::string_view kind;
  void (*draw)(Tensors parameters, std::int64_t index, std::uint64_t seed) = nullptr;  // null: no parameters
  LayerValue (*forward)(const ModuleForward& at) = nullptr;
  std::unique_ptr<PipelineLayer> (*make)(const PipelineLayerParts& parts) = nullptr;
};

template <typename Kind>
std::unique_ptr<PipelineLayer> make_layer(const PipelineLayerParts& parts) {
  return std::make_unique<Kind>(parts);
}

std::span<const LayerModule> linear_modules();
std::span<const LayerModule> norm_modules();
std::span<const LayerModule> elementwise_modules();
std::span<const LayerModule> embedding_modules();
std::span<const LayerModule> attention_modules();

/// Of a kind that is not made of others.
const LayerModule& module_of(const Layer& layer);

/// Of a kind that is.
std::unique_ptr<PipelineLayer> make_composed_layer(const PipelineLayerParts& parts);

/// result = a + b. Under autocast one of them may be in half precision, and the result in fp32.
void add_types(at::Tensor& result, const at::Tensor& a, const at::Tensor& b);

/// Cosines and sines of rotary positions, each tokens x head_size, the halves of a head alike: made once for a process,
/// device and type.
struct RotaryTables {
  at::Tensor cosines, sines;
};
const RotaryTables& rotary_tables(std::int64_t tokens, std::int64_t head_size, at::Device device, at::ScalarType type);

}  // namespace pdl
