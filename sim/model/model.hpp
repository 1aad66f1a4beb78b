// A model: a list of layers (sim/model/layer.hpp), trained with a mean-squared-error loss.
//
//   Model m = mlp(8, 4096);          // 8 times Linear(4096, 4096) and ReLU
//   parameters(m)                    // 8 * (4096*4096 + 4096)
//
// Units: counts of numbers; bytes where the name says so. Not here: what a layer is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/model/layer.hpp"

namespace pdl {

class JsonPlace;

struct Model {
  std::vector<Layer> layers;
  bool operator==(const Model&) const = default;
};

/// `depth` equal blocks of width `dim`. depth >= 1, dim >= 1.
Model mlp(std::int64_t depth, std::int64_t dim);

/// So that bytes of parameters, gradients and optimizer state stay below 2^63.
inline constexpr double kMostParameters = 2.5e17;

/// Reads {"layers": [{"kind": "linear_relu", "in": 4096, "out": 4096}, ...]}: docs/formats-model.md. Throws InputError
/// naming the file and the place in it: as read_json_file, an unknown, missing or doubled key, as read_layers.
Model load_model(const std::string& path);

/// The list of layers of a model file, or of a run that has them in it. Throws InputError naming the place: no list, as
/// read_layer, a width that does not fit the layer before, a first layer without parameters (it would have nothing
/// to train), no layer or more than a million, more than kMostParameters.
Model read_layers(const JsonPlace& layers);

/// Numbers of a row that the model takes, and gives.
std::int64_t input_numbers(const Model& model);
std::int64_t output_numbers(const Model& model);

std::int64_t parameters(const Model& model);

/// Parameters of layers [first, first + count), and in how many tensors.
std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count);
std::int64_t parameter_tensor_count(const Model& model, std::int64_t first, std::int64_t count);

/// Bytes of a number between two layers, as LibTorch's modules leave it: [l] of what layer l takes, the last one of
/// what the model gives. 4, or 2 behind a layer whose result is half under autocast.
std::vector<std::int64_t> activation_number_bytes(const Model& model, Dtype dtype);

/// Bytes of all activations that are kept for the backward of layers [first, first + count), of one micro-batch: each
/// tensor once, whoever keeps it. Copies of parameters are not counted.
///   autograd   what the layers' modules keep (AutogradTensors); `number_bytes` is activation_number_bytes()
///   pipeline   the input, the results of all layers and their statistics, in fp32 (PipelineTensors)
std::int64_t kept_by_autograd(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                              Dtype dtype, const std::vector<std::int64_t>& number_bytes);
std::int64_t kept_by_pipeline(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows);

}  // namespace pdl
