#include "sim/cost/measured_key.hpp"

#include <algorithm>
#include <array>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestWidth = std::int64_t{1} << 40;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 60;
constexpr std::int64_t kMillion = 1000000;

enum class Presence { required, by_default, optional };

/// One field of a key, as a file has it. Exactly one of text, dtype, flag, whole is set; none: the layer, which has
/// several.
struct Field {
  const char* name;
  Presence presence;
  std::string MeasuredKey::* text = nullptr;
  std::vector<std::string> words = {};  // empty: any word of letters, digits, '_', '-', '.'
  std::optional<Dtype> MeasuredKey::* dtype = nullptr;
  bool MeasuredKey::* flag = nullptr;
  std::int64_t MeasuredKey::* whole = nullptr;
  std::int64_t least = 0;
  std::int64_t largest = 0;
};

Field text_field(const char* name, std::string MeasuredKey::* member, std::vector<std::string> words,
                 Presence presence = Presence::required) {
  return {.name = name, .presence = presence, .text = member, .words = std::move(words)};
}

Field dtype_field(Presence presence = Presence::required) {
  return {.name = "dtype", .presence = presence, .dtype = &MeasuredKey::dtype};
}

Field flag_field(const char* name, bool MeasuredKey::* member) {
  return {.name = name, .presence = Presence::by_default, .flag = member};
}

Field whole_field(const char* name, std::int64_t MeasuredKey::* member, std::int64_t least, std::int64_t largest,
                  Presence presence = Presence::required) {
  return {.name = name, .presence = presence, .whole = member, .least = least, .largest = largest};
}

/// Kind and sizes.
Field layer_field() {
  return {.name = "kind", .presence = Presence::required};
}

bool is_layer(const Field& field) {
  return !field.text && !field.dtype && !field.flag && !field.whole;
}

/// What is not said is a linear_relu.
const LayerKind& kind_in(const JsonPlace& object) {
  return object.has("kind") ? read_layer_kind(object.at("kind")) : *linear_relu(1, 1).kind;
}

/// "64x128"; of other kinds "layer_norm 64".
std::string shape_text(const Layer& layer) {
  const bool is_linear = layer.kind == linear_relu(1, 1).kind;
  std::string text = is_linear ? "" : std::string(layer.kind->name) + " ";
  for (std::size_t i = 0; i < layer.kind->sizes.size(); ++i)
    text += (i > 0 ? "x" : "") + std::to_string(layer.sizes[i]);
  return text;
}

struct Description {
  const char* name;
  const char* size_name;
  std::vector<Field> fields;
};

std::array<Description, kProbes> make_descriptions() {
  using Key = MeasuredKey;
  const std::vector<std::string> implementations = {"pipeline", "autograd"};
  const std::vector<std::string> transports = {"copy", "nccl", "gloo"};
  const Field implementation = text_field("implementation", &Key::implementation, implementations);
  const Field operation =
      text_field("operation", &Key::operation, {"forward", "backward", "backward_input", "backward_weight"});
  const Field dtype = dtype_field();
  const Field transport = text_field("transport", &Key::transport, transports);
  return {{
      {"layer",
       "rows",
       {implementation, operation, flag_field("accumulate", &Key::accumulate),
        flag_field("input_gradient", &Key::input_gradient), dtype, layer_field(),
        whole_field("layers", &Key::layers, 1, kMillion, Presence::optional)}},
      {"loss",
       "elements",
       {implementation, dtype, text_field("name", &Key::name, {kCrossEntropy}, Presence::optional)}},
      {"optimizer",
       "parameters",
       {implementation, text_field("optimizer", &Key::optimizer, {"sgd", "adam", "adamw", "adamw-fused", "unscale"})}},
      {"zero_grad", "parameters", {implementation}},
      {"transfer",
       "bytes",
       {transport, whole_field("from", &Key::from, 0, kMillion), whole_field("to", &Key::to, 0, kMillion),
        flag_field("bidirectional", &Key::bidirectional)}},
      {"collective",
       "bytes",
       {text_field("operation", &Key::operation, {}), transport, whole_field("ranks", &Key::ranks, 2, kMillion),
        whole_field("hosts", &Key::hosts, 1, kMillion, Presence::optional)}},
      {"host",
       "",
       {text_field("name", &Key::name, {}),
        text_field("implementation", &Key::implementation, implementations, Presence::optional),
        text_field("transport", &Key::transport, transports, Presence::optional),
        whole_field("workers", &Key::workers, 1, kMillion, Presence::optional)}},
      {"memory",
       "",
       {text_field("name", &Key::name, {}),
        text_field("implementation", &Key::implementation, implementations, Presence::optional),
        dtype_field(Presence::optional)}},
      {"bucket", "parameters", {text_field("operation", &Key::operation, {"copy_in", "copy_out", "join"})}},
      {"overlap",
       "bytes",
       {text_field("name", &Key::name, {"compute", "communication", "compute_alone", "communication_alone"}),
        text_field("operation", &Key::operation, {}), transport, whole_field("ranks", &Key::ranks, 2, kMillion), dtype,
        layer_field(), whole_field("rows", &Key::rows, 1, kMillion)}},
      {"pause",
       "pause_ns",
       {text_field("operation", &Key::operation, {"forward", "backward", "optimizer"}),
        text_field("name", &Key::name, {"again", "after_wait", "after_sleep", "later"}), implementation, dtype}},
      {"sustained", "rows", {implementation, operation, dtype, layer_field()}},
  }};
}

const std::array<Description, kProbes>& descriptions() {
  static const std::array<Description, kProbes> all = make_descriptions();
  return all;
}

const Description& description(Probe probe) {
  return descriptions()[static_cast<std::size_t>(probe)];
}

/// What is not said: 0, or one host.
bool is_default(const Field& field, std::int64_t value) {
  return value == MeasuredKey().*field.whole;
}

bool is_plain_word(const std::string& text) {
  return !text.empty() && text.size() <= 100 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

void check_text(const Field& field, const std::string& value, const std::string& place) {
  if (value.empty() && field.presence == Presence::optional) return;
  if (field.words.empty()) {
    if (!is_plain_word(value)) throw InputError(place, "\"" + value + "\"", "a word of letters, digits, '_', '-', '.'");
  } else if (std::find(field.words.begin(), field.words.end(), value) == field.words.end()) {
    throw InputError(place, "\"" + value + "\"", list_words(field.words));
  }
}

void check_whole(const Field& field, std::int64_t value, const std::string& place) {
  if (is_default(field, value) && field.presence == Presence::optional) return;
  if (value < field.least || value > field.largest) {
    throw InputError(place, std::to_string(value),
                     "a whole number from " + std::to_string(field.least) + " to " + std::to_string(field.largest));
  }
}

std::vector<std::string> dtype_words() {
  std::vector<std::string> words;
  for (const Dtype dtype : kAllDtypes) words.push_back(to_string(dtype));
  return words;
}

void check_dtype(const Field& field, const std::optional<Dtype>& value, const std::string& place) {
  if (value || field.presence == Presence::optional) return;
  throw InputError(place, "\"\"", list_words(dtype_words()));
}

Dtype read_dtype(const JsonPlace& value) {
  if (const std::optional<Dtype> dtype = find_dtype(value.text())) return *dtype;
  throw InputError(value.name(), "\"" + value.text() + "\"", list_words(dtype_words()));
}

void check_layer(const Layer& layer, const std::string& place) {
  if (!layer.kind) throw InputError(place + ".kind", "no layer", "a kind of layer and its sizes");
  for (std::size_t i = 0; i < layer.kind->sizes.size(); ++i) {
    if (layer.sizes[i] >= 1 && layer.sizes[i] <= kLargestWidth) continue;
    throw InputError(place + "." + std::string(layer.kind->sizes[i].name), std::to_string(layer.sizes[i]),
                     "a whole number from 1 to " + std::to_string(kLargestWidth));
  }
}

/// A linear_relu does not say its kind.
void write_layer(const Layer& layer, nlohmann::ordered_json& object) {
  if (layer.kind != linear_relu(1, 1).kind) object["kind"] = std::string(layer.kind->name);
  for (std::size_t i = 0; i < layer.kind->sizes.size(); ++i)
    object[std::string(layer.kind->sizes[i].name)] = layer.sizes[i];
}

/// Rules between fields.
void check_together(const MeasuredKey& key, const std::string& place) {
  if (key.probe == Probe::layer) {
    const bool weight = key.operation == "backward" || key.operation == "backward_weight";
    const bool input = key.operation == "backward" || key.operation == "backward_input";
    if (key.accumulate && !weight) {
      throw InputError(place, "accumulate true with operation " + key.operation,
                       "it only with backward or backward_weight, which write gradients of weights");
    }
    if (!key.input_gradient && !input) {
      throw InputError(place, "input_gradient false with operation " + key.operation,
                       "it only with backward or backward_input");
    }
    if (key.layers > 0 && key.operation != "backward") {
      throw InputError(place, "layers " + std::to_string(key.layers) + " with operation " + key.operation,
                       "it only with backward, whose two streams end together");
    }
  }
  if (key.probe == Probe::layer && !has_parameters(key.layer) &&
      (key.accumulate || key.operation == "backward_weight")) {
    throw InputError(place, key.accumulate ? "accumulate true" : "operation backward_weight",
                     "a kind with parameters: " + std::string(key.layer.kind->name) + " has none");
  }
  if (key.probe == Probe::transfer && key.from == key.to) {
    throw InputError(place, "a transfer from worker " + std::to_string(key.from) + " to itself", "two workers");
  }
  if (key.probe == Probe::collective && key.ranks % key.hosts != 0) {
    throw InputError(place, std::to_string(key.ranks) + " ranks on " + std::to_string(key.hosts) + " hosts",
                     "as many ranks on every host");
  }
}

}  // namespace

std::string_view to_string(Probe probe) {
  return description(probe).name;
}

std::string_view size_name(Probe probe) {
  return description(probe).size_name;
}

std::vector<std::string> key_fields(Probe probe, const JsonPlace& object) {
  std::vector<std::string> names;
  for (const Field& field : description(probe).fields) {
    names.emplace_back(field.name);
    if (!is_layer(field)) continue;
    for (const LayerSize& size : kind_in(object).sizes) names.emplace_back(size.name);
  }
  return names;
}

std::string dtype_word(const MeasuredKey& key) {
  return key.dtype ? to_string(*key.dtype) : "";
}

std::string describe(const MeasuredKey& key) {
  std::string text(to_string(key.probe));
  if (key.probe == Probe::transfer) {
    text += " " + key.transport + " " + std::to_string(key.from) + " -> " + std::to_string(key.to) +
            (key.bidirectional ? " both ways" : "");
  } else {
    for (const Field& field : description(key.probe).fields) {
      if (field.text && !(key.*field.text).empty()) text += " " + key.*field.text;
      if (field.dtype && key.dtype) text += " " + dtype_word(key);
      if (field.whole == &MeasuredKey::ranks) text += " of " + std::to_string(key.ranks);
      if (field.whole == &MeasuredKey::hosts && key.hosts > 1) text += " on " + std::to_string(key.hosts) + " hosts";
      if (field.whole == &MeasuredKey::workers && key.workers > 0)
        text += " " + std::to_string(key.workers) + " workers";
    }
    if (key.accumulate) text += " accumulate";
    if (!key.input_gradient) text += " without input gradient";
    if (key.layers > 0) text += " in a stage of " + std::to_string(key.layers);
    if (key.layer.kind) text += " " + shape_text(key.layer);
  }
  if (key.rows > 0) text += ", rows " + std::to_string(key.rows);
  if (key.size > 0) text += ", " + std::string(size_name(key.probe)) + " " + std::to_string(key.size);
  return text;
}

MeasuredKey curve_key(MeasuredKey key) {
  key.size = 0;
  return key;
}

void check_key(const MeasuredKey& key, const std::string& place) {
  for (const Field& field : description(key.probe).fields) {
    const std::string at = place + "." + field.name;
    if (field.text) check_text(field, key.*field.text, at);
    if (field.dtype) check_dtype(field, key.*field.dtype, at);
    if (field.whole) check_whole(field, key.*field.whole, at);
    if (is_layer(field)) check_layer(key.layer, place);
  }
  const std::string size(size_name(key.probe));
  if (!size.empty() && (key.size < 1 || key.size > kLargestSize)) {
    throw InputError(place + "." + size, std::to_string(key.size),
                     "a whole number from 1 to " + std::to_string(kLargestSize));
  }
  check_together(key, place);
}

void write_key(const MeasuredKey& key, bool with_size, nlohmann::ordered_json& object) {
  for (const Field& field : description(key.probe).fields) {
    const bool is_set = (field.text && !(key.*field.text).empty()) || (field.dtype && key.*field.dtype) ||
                        (field.whole && !is_default(field, key.*field.whole));
    if (field.presence == Presence::optional && !is_set) continue;
    if (is_layer(field)) write_layer(key.layer, object);
    if (field.text) object[field.name] = key.*field.text;
    if (field.dtype) object[field.name] = dtype_word(key);
    if (field.flag) object[field.name] = key.*field.flag;
    if (field.whole) object[field.name] = key.*field.whole;
  }
  const std::string size(size_name(key.probe));
  if (with_size && !size.empty()) object[size] = key.size;
}

MeasuredKey read_key(Probe probe, const JsonPlace& object, bool with_size) {
  MeasuredKey key;
  key.probe = probe;
  for (const Field& field : description(probe).fields) {
    if (is_layer(field)) {
      key.layer = read_layer_sizes(kind_in(object), object, kLargestWidth);
      continue;
    }
    if (field.presence != Presence::required && !object.has(field.name)) continue;
    const JsonPlace value = object.at(field.name);
    if (field.flag) key.*field.flag = value.boolean();
    if (field.whole) key.*field.whole = value.whole(field.least, field.largest);
    if (field.dtype) key.*field.dtype = read_dtype(value);
    if (field.text) {
      key.*field.text = value.text();
      check_text(field, key.*field.text, value.name());
    }
  }
  const std::string size(size_name(probe));
  if (with_size && !size.empty()) key.size = object.at(size).whole(1, kLargestSize);
  check_together(key, object.name());
  return key;
}

Probe read_probe(const JsonPlace& value) {
  const std::string text = value.text();
  std::vector<std::string> names;
  for (const Description& each : descriptions()) names.push_back(each.name);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Probe>(found - names.begin());
  const std::string nearest = nearest_word(text, names);
  throw InputError(
      value.name(), "\"" + text + "\"",
      nearest.empty() ? list_words(names) : "\"" + nearest + "\" perhaps (known: " + list_words(names) + ")");
}

}  // namespace pdl
