#include "sim/spec/model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/spec/error.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestWidth = 10'000'000;

std::int64_t width(const nlohmann::json& layer, const std::string& key, const std::string& place) {
  if (!layer.contains(key)) throw InputError(place, "no \"" + key + "\"", "a width");
  const nlohmann::json& value = layer[key];
  if (!value.is_number_integer() || value < 1 || value > kLargestWidth) {
    throw InputError(place + "." + key, value.dump(), "a whole number from 1 to " + std::to_string(kLargestWidth));
  }
  return value;
}

Layer read_layer(const nlohmann::json& layer, const std::string& place) {
  if (!layer.is_object()) throw InputError(place, layer.dump(), "an object with kind, in, out");
  for (const auto& [key, value] : layer.items()) {
    if (key != "kind" && key != "in" && key != "out") throw InputError(place + "." + key, "an unknown key", "kind, in, out");
  }
  if (!layer.contains("kind") || layer["kind"] != "linear_relu") {
    throw InputError(place + ".kind", layer.contains("kind") ? layer["kind"].dump() : "nothing", "\"linear_relu\"");
  }
  return {width(layer, "in", place), width(layer, "out", place)};
}

}  // namespace

Model mlp(std::int64_t depth, std::int64_t dim) {
  return Model{std::vector<Layer>(static_cast<std::size_t>(depth), Layer{dim, dim})};
}

Model load_model(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path, "no readable file", "a model file, or the word mlp");
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(file);
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError(path + ": not valid JSON at byte " + std::to_string(error.byte));
  }
  if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array() || json["layers"].empty()) {
    throw InputError(path, "no layers", "{\"layers\": [{\"kind\": \"linear_relu\", \"in\": N, \"out\": N}, ...]}");
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "layers") throw InputError(path + ": " + key, "an unknown key", "layers");
  }
  Model model;
  for (std::size_t i = 0; i < json["layers"].size(); ++i) {
    const std::string place = path + ": layers[" + std::to_string(i) + "]";
    const Layer layer = read_layer(json["layers"][i], place);
    if (i > 0 && layer.in_features != model.layers.back().out_features) {
      throw InputError(place + ".in", std::to_string(layer.in_features),
                       std::to_string(model.layers.back().out_features) + ", the width that the layer before gives");
    }
    model.layers.push_back(layer);
  }
  return model;
}

std::int64_t parameters(const Layer& layer) { return layer.in_features * layer.out_features + layer.out_features; }

std::int64_t parameters(const Model& model) {
  return parameters(model, 0, static_cast<std::int64_t>(model.layers.size()));
}

std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count) {
  std::int64_t sum = 0;
  for (std::int64_t i = first; i < first + count; ++i) sum += parameters(model.layers[static_cast<std::size_t>(i)]);
  return sum;
}

}  // namespace pdl
