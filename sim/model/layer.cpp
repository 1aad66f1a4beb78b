#include "sim/model/layer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
std::strong_ordering Layer::operator<=>(const Layer& other) const {
  const auto name = [](const Layer& layer) { return layer.kind ? layer.kind->name : std::string_view(); };
  const auto by_kind = name(*this) <=> name(other);
  return by_kind != 0 ? by_kind : sizes <=> other.sizes;
}

std::int64_t ParameterTensor::numbers() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

Layer layer_of_width(const LayerKind& kind, std::int64_t width) {
  if (kind.of_width) return kind.of_width(width);
  Layer layer{&kind, {}};
  std::fill_n(layer.sizes.begin(), kind.sizes.size(), width);
  return layer;
}

std::vector<ParameterTensor> parameter_tensors(const Layer& layer) {
  if (layer.kind->inner) return inner_parameter_tensors(layer);
  return layer.kind->parameter_tensors(layer);
}

std::int64_t parameters(const Layer& layer) {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : parameter_tensors(layer)) sum += tensor.numbers();
  return sum;
}

bool has_parameters(const Layer& layer) {
  return !parameter_tensors(layer).empty();
}

std::int64_t matrix_parameters(const Layer& layer) {
  std::int64_t sum = 0;
  for (const ParameterTensor& tensor : parameter_tensors(layer)) sum += tensor.shape.size() > 1 ? tensor.numbers() : 0;
  return sum;
}

std::int64_t input_numbers(const Layer& layer) {
  return layer.kind->input_numbers(layer);
}

std::int64_t output_numbers(const Layer& layer) {
  return layer.kind->output_numbers(layer);
}

double flops(const Layer& layer, const LayerWork& work) {
  if (layer.kind->inner) return inner_flops(layer, work);
  return layer.kind->flops(layer, work);
}

double bytes(const Layer& layer, const LayerWork& work) {
  if (layer.kind->inner) return inner_bytes(layer, work);
  return layer.kind->bytes(layer, work);
}

AutogradTensors autograd_tensors(const Layer& layer, const AutogradCase& at) {
  if (layer.kind->inner) return inner_autograd_tensors(layer, at);
  return layer.kind->autograd(layer, at);
}

PipelineTensors pipeline_tensors(const Layer& layer, const PipelineCase& at) {
  if (layer.kind->inner) return inner_pipeline_tensors(layer, at);
  return layer.kind->pipeline ? layer.kind->pipeline(layer, at) : PipelineTensors();
}

std::int64_t result_number_bytes(const Layer& layer, Dtype dtype, std::int64_t input_number_bytes) {
  AutogradCase at;
  at.dtype = dtype;
  at.input_number_bytes = input_number_bytes;
  return autograd_tensors(layer, at).result_number_bytes;
}

std::vector<TensorSize> half_parameters(const Layer& layer, Dtype dtype) {
  if (!is_amp(dtype)) return {};
  AutogradCase at;
  at.dtype = dtype;
  AutogradTensors tensors = autograd_tensors(layer, at);
  tensors.kept_parameters.insert(tensors.kept_parameters.end(), tensors.cached.begin(), tensors.cached.end());
  return tensors.kept_parameters;
}

std::string to_text(const Layer& layer) {
  std::string text(layer.kind->name);
  for (std::size_t i = 0; i < layer.kind->sizes.size(); ++i)
    text += (i == 0 ? " " : " x ") + std::to_string(layer.sizes[i]);
  return text;
}

nlohmann::ordered_json to_json(const Layer& layer) {
  nlohmann::ordered_json json = {{"kind", layer.kind->name}};
  for (std::size_t i = 0; i < layer.kind->sizes.size(); ++i)
    json[std::string(layer.kind->sizes[i].name)] = layer.sizes[i];
  return json;
}

Layer read_layer(const JsonPlace& place) {
  place.object();
  const LayerKind& kind = read_layer_kind(place.at("kind"));
  if (!kind.stands_alone) place.at("kind").refuse("a kind that stands alone: this one is inside of others only");
  std::vector<std::string> keys = {"kind"};
  for (const LayerSize& size : kind.sizes) keys.emplace_back(size.name);
  place.object_of(keys);
  return read_layer_sizes(kind, place, INT64_MAX);
}

Layer read_layer_sizes(const LayerKind& kind, const JsonPlace& object, std::int64_t largest) {
  Layer layer{&kind, {}};
  for (std::size_t i = 0; i < kind.sizes.size(); ++i) {
    const LayerSize& size = kind.sizes[i];
    const std::string name(size.name);
    layer.sizes[i] = size.usual && !object.has(name)
                         ? *size.usual
                         : object.at(name).whole(size.least, std::min(largest, size.largest));
  }
  if (!kind.refusal) return layer;
  if (const auto refusal = kind.refusal(layer)) throw InputError(object.name(), refusal->first, refusal->second);
  return layer;
}

const LayerKind& read_layer_kind(const JsonPlace& name) {
  const std::string text = name.text();
  if (const LayerKind* kind = find_layer_kind(text)) return *kind;
  std::vector<std::string> names;
  for (const LayerKind* kind : layer_kinds()) names.emplace_back(kind->name);
  const std::string nearest = nearest_word(text, names);
  name.refuse(nearest.empty() ? "a kind of layer: " + list_words(names)
                              : "\"" + nearest + "\" perhaps (known: " + list_words(names) + ")");
}

}  // namespace pdl
