#include "sim/model/model.hpp"

#include <array>
#include <filesystem>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestWidth = 10'000'000;
constexpr std::size_t kMostLayers = 1'000'000;

Layer read_layer(const JsonPlace& place) {
  const std::array<std::string, 3> keys = {"kind", "in", "out"};
  place.object_of(keys);
  const JsonPlace kind = place.at("kind");
  if (kind.text() != "linear_relu") kind.refuse("\"linear_relu\", the one kind of layer there is");
  return {place.at("in").whole(1, kLargestWidth), place.at("out").whole(1, kLargestWidth)};
}

}  // namespace

Model mlp(std::int64_t depth, std::int64_t dim) {
  return Model{std::vector<Layer>(static_cast<std::size_t>(depth), Layer{dim, dim})};
}

Model load_model(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw InputError(path, "no such file", "a model file, or the word mlp");
  const nlohmann::json document = read_json_file(path);
  const JsonPlace root(document, path);
  const std::array<std::string, 1> keys = {"layers"};
  return read_layers(root.object_of(keys).at("layers"));
}

Model read_layers(const JsonPlace& layers) {
  layers.array();
  if (layers.size() == 0 || layers.size() > kMostLayers)
    layers.refuse("from 1 to " + std::to_string(kMostLayers) + " layers");
  Model model;
  double count = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const JsonPlace place = layers.at(i);
    const Layer layer = read_layer(place);
    if (i > 0 && layer.in_features != model.layers.back().out_features) {
      place.at("in").refuse(std::to_string(model.layers.back().out_features) +
                            ", the width that the layer before gives");
    }
    model.layers.push_back(layer);
    count += static_cast<double>(parameters(layer));
  }
  if (count > kMostParameters) throw InputError(layers.name(), "more than 2.5e17 parameters", "a model of fewer");
  return model;
}

std::int64_t parameters(const Layer& layer) {
  return layer.in_features * layer.out_features + layer.out_features;
}

std::int64_t parameters(const Model& model) {
  return parameters(model, 0, static_cast<std::int64_t>(model.layers.size()));
}

std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count) {
  std::int64_t sum = 0;
  for (std::int64_t i = first; i < first + count; ++i) sum += parameters(model.layers[static_cast<std::size_t>(i)]);
  return sum;
}

}  // namespace pdl
