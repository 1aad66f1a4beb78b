#include "runtime/model/layer_modules.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <map>

#include "runtime/model/forward_layer.hpp"
#include "runtime/model/layer_module.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

std::map<const LayerKind*, const LayerModule*> modules_by_kind() {
  std::map<const LayerKind*, const LayerModule*> modules;
  for (const auto table :
       {linear_modules(), norm_modules(), elementwise_modules(), embedding_modules(), attention_modules()}) {
    for (const LayerModule& module : table) modules.emplace(find_layer_kind(module.kind), &module);
  }
  return modules;
}

/// So many rows, by a view.
at::Tensor in_rows(const at::Tensor& tensor, std::int64_t rows) {
  return tensor.dim() == 2 && tensor.size(0) == rows ? tensor : tensor.view({rows, -1});
}

/// One after another. What nobody needs any more goes, as in a script that gives a variable anew.
at::Tensor forward_inner(const Layer& layer, at::Tensor x, Tensors parameters, const at::Tensor& tied) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  const std::vector<std::size_t> last = last_takers(inner);
  const std::int64_t rows = x.size(0);
  std::vector<LayerValue> values(inner.size() + 1);
  values[0] = {std::move(x)};
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const InnerLayer& one = inner[i];
    const auto input_of = [&](int from) {
      const LayerValue& value = values[place_of(from)];
      return value.second.defined() ? value : LayerValue{in_rows(value.tensor, rows * one.rows)};
    };
    const LayerValue input = input_of(one.from);
    const at::Tensor other = one.and_from == InnerLayer::kNone ? at::Tensor() : input_of(one.and_from).tensor;
    TORCH_CHECK(!one.tied || tied.defined(), "a tied head without the embedding before it");
    const std::size_t count = one.tied ? 0 : parameter_tensors(one.layer).size();
    const Tensors own = one.tied ? Tensors(&tied, 1) : parameters.first(count);
    values[i + 1] = module_of(one.layer).forward({one.layer, input, other, own});
    parameters = parameters.subspan(count);
    for (const int from : {one.from, one.and_from})
      if (from != InnerLayer::kNone && last[place_of(from)] == i) values[place_of(from)] = {};
  }
  return in_rows(values.back().tensor, rows);
}

}  // namespace

const LayerModule& module_of(const Layer& layer) {
  static const std::map<const LayerKind*, const LayerModule*> modules = modules_by_kind();
  const auto found = modules.find(layer.kind);
  TORCH_CHECK(found != modules.end(), "no module for layers of kind ", std::string(layer.kind->name));
  return *found->second;
}

std::int64_t inner_index(std::int64_t layer_index, std::size_t place) {
  constexpr int kBitsOfLayers = 24;  // a model has at most a million
  return layer_index + (static_cast<std::int64_t>(place) << kBitsOfLayers);
}

std::vector<at::Tensor> make_parameters(const Layer& layer, std::int64_t index, at::Device device, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  const std::vector<InnerLayer> inner = inner_layers(layer);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i].tied) continue;
    std::vector<at::Tensor> parameters;
    for (const ParameterTensor& tensor : parameter_tensors(inner[i].layer))
      parameters.push_back(at::empty(tensor.shape, at::TensorOptions().device(device).dtype(at::kFloat)));
    const LayerModule& module = module_of(inner[i].layer);
    if (module.draw) module.draw(parameters, inner_index(index, i), seed);
    all.insert(all.end(), parameters.begin(), parameters.end());
  }
  return all;
}

at::Tensor forward_layer(const Layer& layer, at::Tensor x, Tensors parameters, const at::Tensor& tied) {
  if (layer.kind->inner) return forward_inner(layer, std::move(x), parameters, tied);
  return module_of(layer).forward({layer, {std::move(x)}, {}, parameters}).tensor;
}

at::Tensor forward_layers(std::span<const Layer> layers, at::Tensor x, Tensors parameters, const RunLayer& run) {
  const at::Tensor tied = layers.front().kind->takes_tokens ? parameters.front() : at::Tensor();
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::size_t count = parameter_tensors(layers[l]).size();
    x = run(l, std::move(x), parameters.first(count), tied);
    parameters = parameters.subspan(count);
  }
  return x;
}

at::Tensor forward_layers(std::span<const Layer> layers, at::Tensor x, Tensors parameters) {
  return forward_layers(layers, std::move(x), parameters,
                        [&](std::size_t l, at::Tensor input, Tensors own, const at::Tensor& tied) {
                          return forward_layer(layers[l], std::move(input), own, tied);
                        });
}

std::unique_ptr<PipelineLayer> make_pipeline_layer(const PipelineLayerParts& parts) {
  return parts.layer.kind->inner ? make_composed_layer(parts) : module_of(parts.layer).make(parts);
}

}  // namespace pdl
