#include "sim/model/model.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kBytesPerToken = 8;
constexpr std::size_t kMostLayers = 1'000'000;

/// The size of a layer that says what goes into it.
std::string name_of_input(const Layer& layer) {
  return std::string(layer.kind->sizes.front().name);
}

const Layer& layer_at(const Model& model, std::int64_t index) {
  return model.layers[static_cast<std::size_t>(index)];
}

/// Reads a list, and the lists in it.
class LayerList {
 public:
  explicit LayerList(const JsonPlace& layers) : whole_(layers) {}

  Model read() && {
    add_list(whole_);
    return std::move(model_);
  }

 private:
  void add_list(const JsonPlace& layers) {
    layers.array();
    if (layers.size() == 0) refuse_number(layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonPlace place = layers.at(i);
      place.object().has("times") ? add_group(place) : add_layer(place);
      if (model_.layers.size() > kMostLayers) refuse_number(layers);
    }
  }

  void add_group(const JsonPlace& group) {
    const std::array<std::string, 2> keys = {"times", "layers"};
    const std::int64_t times = group.object_of(keys).at("times").whole(1, kMostLayers);
    const std::size_t first = model_.layers.size();
    const double before = parameters_;
    add_list(group.at("layers"));
    const std::size_t count = model_.layers.size() - first;
    if (times == 1) return;
    if (static_cast<std::size_t>(times) > (kMostLayers - first) / count) refuse_number(group.at("times"));
    const std::int64_t given = output_numbers(model_.layers.back()), taken = input_numbers(model_.layers[first]);
    if (model_.layers[first].kind->takes_tokens) group.at("times").refuse("1: the first of these layers takes tokens");
    if (given != taken)
      throw InputError(group.name(), std::to_string(given) + " numbers of a sample that come out of it",
                       std::to_string(taken) + ", as many as go into it: it stands behind itself");
    for (std::int64_t more = 1; more < times; ++more) {
      for (std::size_t i = 0; i < count; ++i) model_.layers.push_back(model_.layers[first + i]);
    }
    add_parameters(static_cast<double>(times - 1) * (parameters_ - before));
  }

  void add_layer(const JsonPlace& place) {
    const Layer layer = read_layer(place);
    const bool is_first = model_.layers.empty();
    if (is_first && !has_parameters(layer)) {
      place.at("kind").refuse("a layer with parameters: without them the first layer has nothing to train");
    }
    if (!is_first && layer.kind->takes_tokens)
      place.at("kind").refuse("a layer that takes what the layer before gives: this one takes tokens");
    if (!is_first && input_numbers(layer) != output_numbers(model_.layers.back())) {
      const std::string given = std::to_string(output_numbers(model_.layers.back()));
      if (layer.sizes.front() != input_numbers(layer))
        throw InputError(place.name(), std::to_string(input_numbers(layer)) + " numbers of a sample",
                         given + ", as many as the layer before gives");
      place.at(name_of_input(layer)).refuse(given + ", the width that the layer before gives");
    }
    model_.layers.push_back(layer);
    add_parameters(static_cast<double>(parameters(layer)));
  }

  void add_parameters(double more) {
    parameters_ += more;
    if (parameters_ > kMostParameters)
      throw InputError(whole_.name(), "more than 2.5e17 parameters", "a model of fewer");
  }

  [[noreturn]] static void refuse_number(const JsonPlace& place) {
    place.refuse("from 1 to " + std::to_string(kMostLayers) + " layers");
  }

  const JsonPlace& whole_;
  Model model_;
  double parameters_ = 0;
};

/// The embedding that stands first, of a layer of its own or inside of one; no kind: there is none.
Layer embedding_of(const Model& model) {
  const Layer first = inner_layers(model.layers.front()).front().layer;
  return first.kind->takes_tokens ? first : Layer();
}

void check_tied(const Model& model, const JsonPlace& layers) {
  const Layer* before = nullptr;  // equal layers stand one after another
  for (const Layer& layer : model.layers) {
    const bool known = before && *before == layer;
    before = &layer;
    if (known && &layer != &model.layers.back()) continue;
    const InnerLayer last = inner_layers(layer).back();
    if (!last.tied) continue;
    if (&layer != &model.layers.back())
      throw InputError(layers.name(), "a tied " + to_text(layer) + " that is not the last layer", "one at the end");
    const Layer embedding = embedding_of(model);
    if (!embedding.kind || embedding.sizes[0] != last.layer.sizes[1] || embedding.sizes[1] != last.layer.sizes[0])
      throw InputError(layers.name(), "a tied " + to_text(layer) + " behind " + to_text(model.layers.front()),
                       "a first layer that embeds as many tokens in as many features, whose weight it has");
  }
}

void read_loss(const JsonPlace& object, Model& model) {
  const std::int64_t tokens = sequence_tokens(model);
  model.loss = tokens > 0 ? Loss::cross_entropy : Loss::mse;
  const bool is_said = object.has("loss");
  if (is_said) {
    const std::string said = object.at("loss").text();
    if (said != to_string(Loss::mse) && said != to_string(Loss::cross_entropy))
      object.at("loss").refuse("mse or cross_entropy");
    if (said == to_string(Loss::mse) && tokens > 0)
      object.at("loss").refuse("cross_entropy: the model takes tokens, and its targets are tokens");
    if (said == to_string(Loss::cross_entropy) && tokens == 0)
      object.at("loss").refuse("mse: cross_entropy is of a model that takes tokens");
  }
  if (tokens > 0 && output_numbers(model) % tokens != 0)
    throw InputError(
        object.at("layers").name(),
        std::to_string(output_numbers(model)) + " numbers that come out of " + std::to_string(tokens) + " tokens",
        "as many logits for each token");
}

}  // namespace

Model mlp(std::int64_t depth, std::int64_t dim) {
  return Model{std::vector<Layer>(static_cast<std::size_t>(depth), linear_relu(dim, dim))};
}

std::string to_string(Loss loss) {
  return loss == Loss::mse ? "mse" : "cross_entropy";
}

Model load_model(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw InputError(path, "no such file", "a model file, or the word mlp");
  const nlohmann::json document = read_json_file(path);
  return read_model_file(JsonPlace(document, path));
}

Model read_model_file(const JsonPlace& root) {
  const std::array<std::string, 2> keys = {"layers", "loss"};
  return read_model(root.object_of(keys));
}

Model read_model(const JsonPlace& object) {
  const JsonPlace layers = object.at("layers");
  Model model = LayerList(layers).read();
  check_tied(model, layers);
  read_loss(object, model);
  return model;
}

std::int64_t sequence_tokens(const Model& model) {
  return model.layers.front().kind->takes_tokens ? input_numbers(model.layers.front()) : 0;
}

bool is_tied(const Model& model) {
  const std::vector<InnerLayer> inner = inner_layers(model.layers.back());
  return inner.back().tied;
}

LossRows loss_rows(const Model& model) {
  if (model.loss == Loss::mse) return {1, output_numbers(model)};
  return {sequence_tokens(model), output_numbers(model) / sequence_tokens(model)};
}

std::int64_t target_bytes(const Model& model) {
  return model.loss == Loss::mse ? output_numbers(model) * kBytesPerNumber : sequence_tokens(model) * kBytesPerToken;
}

double model_flops(const Model& model) {
  double sum = 0, of_layer = 0;
  const Layer* counted = nullptr;  // equal layers stand one after another
  bool first = true;
  for (const Layer& layer : model.layers) {
    if (!counted || layer != *counted) {
      of_layer = 0;
      for (const InnerLayer& inner : inner_layers(layer)) {
        if (inner.layer.kind->scaling == LayerScaling::row_wise) continue;
        LayerWork work{LayerOperation::forward, inner.rows};
        const double forward = flops(inner.layer, work);
        of_layer += forward;
        if (inner.layer.kind->scaling == LayerScaling::attention) {
          of_layer += 2 * forward;
          continue;
        }
        work.operation = LayerOperation::backward;
        work.input_gradient = !first || inner.from != InnerLayer::kInput;
        of_layer += flops(inner.layer, work);
      }
    }
    sum += of_layer;
    counted = first ? nullptr : &layer;
    first = false;
  }
  return sum;
}

bool is_block(const Layer& layer) {
  return layer.kind->inner && !layer.kind->inner(layer).front().part.empty();
}

bool has_blocks(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), is_block);
}

std::optional<BlockRange> blocks_of(const Model& model) {
  const auto begin = model.layers.begin(), end = model.layers.end();
  const auto first = std::find_if(begin, end, is_block), behind = std::find_if_not(first, end, is_block);
  if (first == end || std::find_if(behind, end, is_block) != end) return std::nullopt;
  return BlockRange{first - begin, behind - first};
}

std::int64_t width_of(const Model& model) {
  const std::int64_t tokens = sequence_tokens(model);
  return tokens > 0 ? output_numbers(model.layers.front()) / tokens : input_numbers(model);
}

std::string layer_name(const Model& model, std::int64_t index) {
  const Layer& named = layer_at(model, index);
  if (is_block(named)) {
    const auto begin = model.layers.begin();
    return "block " + std::to_string(std::count_if(begin, begin + index, is_block));
  }
  if (named.kind->takes_tokens) return "embedding";
  return index + 1 == std::ssize(model.layers) && has_blocks(model) ? "head" : "layer " + std::to_string(index);
}

std::int64_t input_numbers(const Model& model) {
  return input_numbers(model.layers.front());
}

std::int64_t output_numbers(const Model& model) {
  return output_numbers(model.layers.back());
}

std::int64_t parameters(const Model& model) {
  return parameters(model, 0, static_cast<std::int64_t>(model.layers.size()));
}

std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count) {
  std::int64_t sum = 0, of_layer = 0;
  const Layer* counted = nullptr;  // equal layers stand one after another
  for (std::int64_t i = first; i < first + count; ++i) {
    const Layer& layer = layer_at(model, i);
    if (!counted || layer != *counted) of_layer = parameters(layer);
    counted = &layer;
    sum += of_layer;
  }
  return sum;
}

std::int64_t parameter_tensor_count(const Model& model, std::int64_t first, std::int64_t count) {
  std::int64_t sum = 0, of_layer = 0;
  const Layer* counted = nullptr;  // equal layers stand one after another
  for (std::int64_t i = first; i < first + count; ++i) {
    const Layer& layer = layer_at(model, i);
    if (!counted || layer != *counted) of_layer = std::ssize(parameter_tensors(layer));
    counted = &layer;
    sum += of_layer;
  }
  return sum;
}

std::vector<std::int64_t> activation_number_bytes(const Model& model, Dtype dtype) {
  std::vector<std::int64_t> bytes = {model.layers.front().kind->takes_tokens ? kBytesPerToken : kBytesPerNumber};
  bytes.resize(model.layers.size() + 1, kBytesPerNumber);
  if (!is_amp(dtype)) return bytes;
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    bytes[l + 1] = result_number_bytes(model.layers[l], dtype, bytes[l]);
  return bytes;
}

std::int64_t kept_by_autograd(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                              Dtype dtype, const std::vector<std::int64_t>& number_bytes) {
  std::int64_t bytes = 0;
  bool has_input = false;  // the result of the layer before is kept by that one
  for (std::int64_t l = first; l < first + count; ++l) {
    const Layer& layer = layer_at(model, l);
    const std::int64_t input_bytes = number_bytes[static_cast<std::size_t>(l)];
    const AutogradTensors tensors = autograd_tensors(layer, {rows, dtype, input_bytes, l > 0});
    if (tensors.keeps_input && !has_input) bytes += rows * input_numbers(layer) * input_bytes;
    for (const TensorSize& tensor : tensors.kept) bytes += tensor.bytes();
    if (tensors.keeps_result) bytes += rows * output_numbers(layer) * tensors.result_number_bytes;
    has_input = tensors.keeps_result;
  }
  return bytes;
}

std::int64_t kept_by_pipeline(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                              Dtype dtype, const std::vector<std::int64_t>& number_bytes) {
  const auto bytes_at = [&](std::int64_t l) { return number_bytes[static_cast<std::size_t>(l)]; };
  const std::int64_t of_input = std::min(bytes_at(first), kBytesPerNumber);  // tokens are counted as numbers in fp32
  std::int64_t bytes = rows * input_numbers(layer_at(model, first)) * of_input;
  for (std::int64_t l = first; l < first + count; ++l) {
    const Layer& layer = layer_at(model, l);
    bytes += rows * output_numbers(layer) * bytes_at(l + 1);
    for (const TensorSize& kept : pipeline_tensors(layer, {rows, dtype, bytes_at(l)}).kept) bytes += kept.bytes();
  }
  return bytes;
}

}  // namespace pdl
