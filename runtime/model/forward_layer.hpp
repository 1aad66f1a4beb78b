// One layer of a model in LibTorch, as autograd sees it: what runtime/model/layer_modules.hpp chains.
//
//   at::Tensor y = forward_layer(layer, x, parameters, tied);
//
// Not here: how often it runs (runtime/model/checkpoint.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>

#include "sim/model/layer.hpp"

namespace pdl {

/// `x`: rows x numbers. `tied`: the weight of the embedding, for a tied head; else it may be undefined.
at::Tensor forward_layer(const Layer& layer, at::Tensor x, std::span<const at::Tensor> parameters,
                         const at::Tensor& tied);

/// forward_layers() of runtime/model/layer_modules.hpp, each layer by `run`: its place among them, what goes in, its
/// own parameters, and `tied`.
using RunLayer =
    std::function<at::Tensor(std::size_t place, at::Tensor x, std::span<const at::Tensor> own, const at::Tensor& tied)>;
at::Tensor forward_layers(std::span<const Layer> layers, at::Tensor x, std::span<const at::Tensor> parameters,
                          const RunLayer& run);

}  // namespace pdl
