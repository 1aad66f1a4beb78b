// A config.json of Hugging Face.
#include "sim/spec/hugging_face_config.hpp"
#include "sim/spec/presets.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = unless_refused([&] { return parse_json(text_of(data, size), "config.json"); });
  if (!document) return 0;
  const JsonPlace root(*document, "config.json");
  if (!is_hugging_face_config(root)) return 0;
  const auto model = unless_refused([&] { return read_hugging_face_config(root, {}); });
  if (!model) return 0;
  require(model->loss == Loss::cross_entropy, "a transformer is trained with cross_entropy");
  const auto sizes = transformer_sizes(*model);
  require(sizes.has_value(), "a transformer has blocks");
  require(transformer(*sizes) == *model, "its layers say what it is");
  require(static_cast<double>(parameters(*model)) <= kMostParameters, "a model has at most so many parameters");
  return 0;
}
