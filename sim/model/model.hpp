// A model: a list of blocks, each Linear(in, out) followed by ReLU, trained with a mean-squared-error loss.
//
//   Model m = mlp(8, 4096);          // 8 blocks 4096 -> 4096
//   parameters(m)                    // 8 * (4096*4096 + 4096)
//
// Units: counts of numbers, never bytes. Not modelled yet: other kinds of layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pdl {

class JsonPlace;

/// One block: y = relu(x W^T + b), W is out x in, b is out.
struct Layer {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
};

struct Model {
  std::vector<Layer> layers;
};

/// `depth` equal blocks of width `dim`. depth >= 1, dim >= 1.
Model mlp(std::int64_t depth, std::int64_t dim);

/// So that bytes of parameters, gradients and optimizer state stay below 2^63.
inline constexpr double kMostParameters = 2.5e17;

/// Reads {"layers": [{"kind": "linear_relu", "in": 4096, "out": 4096}, ...]}: docs/formats-model.md. Throws InputError
/// naming the file and the place in it: as read_json_file, an unknown, missing or doubled key, as read_layers.
Model load_model(const std::string& path);

/// The list of layers of a model file, or of a run that has them in it. Throws InputError naming the place: no list, an
/// unknown or missing key, an unknown kind, a width that is no whole number from 1 to 10,000,000 or does not fit the
/// layer before, no layer or more than a million, more than kMostParameters.
Model read_layers(const JsonPlace& layers);

std::int64_t parameters(const Layer& layer);
std::int64_t parameters(const Model& model);

/// Parameters of layers [first, first + count).
std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count);

}  // namespace pdl
