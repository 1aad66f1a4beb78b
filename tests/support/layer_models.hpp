// Models of several kinds of layers, for tests that hold for every kind in the table (sim/model/layer_kinds.cpp).
//
//   with_layers(spec("--depth 3 --gpus 2 --schedule 1f1b"), {linear_relu(8, 8), norm, linear_relu(8, 8)})
//   for (const std::vector<Layer>& layers : mixed_layers(8)) ...
#pragma once

#include <algorithm>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The spec's model in the place of its `mlp` of as many layers.
inline RunSpec with_layers(RunSpec spec, const std::vector<Layer>& layers) {
  spec.model.layers = layers;
  spec.depth = static_cast<std::int64_t>(layers.size());
  spec.dim = input_numbers(spec.model);
  return spec;
}

/// Of that width, those that stand in a chain: what comes out of one goes into the next. Layers that take tokens, heads
/// and attention do not, and have models of their own; nor do blocks of another width.
inline std::vector<Layer> chained_layers(std::int64_t width) {
  std::vector<Layer> layers;
  for (const LayerKind* kind : layer_kinds()) {
    const Layer layer = layer_of_width(*kind, width);
    if (!kind->takes_tokens && input_numbers(layer) == width && output_numbers(layer) == width) layers.push_back(layer);
  }
  return layers;
}

/// Two trainings with dropout draw other masks; before several softmaxes gradients are too small to train by.
inline bool trains_alike(const std::vector<Layer>& layers) {
  return std::none_of(layers.begin(), layers.end(), [](const Layer& layer) {
    return layer.kind->name == "dropout" || layer.kind->name == "softmax";
  });
}

/// Eleven layers of one width for every kind of chained_layers(), among linear_relu: in the middle, twice behind each
/// other, last; and, where it has parameters, first. Then all kinds together.
inline std::vector<std::vector<Layer>> mixed_layers(std::int64_t width) {
  const Layer linear = linear_relu(width, width);
  std::vector<std::vector<Layer>> models;
  std::vector<Layer> all;
  while (all.size() < 11) {
    for (const Layer& layer : chained_layers(width)) {
      all.push_back(linear);
      if (layer.kind != linear.kind) all.push_back(layer);
    }
  }
  all.resize(11);
  for (const Layer& other : chained_layers(width)) {
    if (other.kind == linear.kind) continue;
    models.push_back({linear, other, linear, other, other, linear, linear, other, linear, other, linear});
    models.push_back({linear, linear, other, linear, linear, other, linear, other, linear, linear, other});
    if (has_parameters(other))
      models.push_back({other, linear, linear, other, linear, other, other, linear, other, linear, other});
  }
  models.push_back(all);
  return models;
}

}  // namespace pdl
