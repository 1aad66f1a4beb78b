// Model files.
#include "sim/model/model.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = as_file("model.json", text_of(data, size));
  const auto model = unless_refused([&] { return load_model(path); });
  if (!model) return 0;
  require(!model->layers.empty(), "a model has layers");
  require(parameters(*model) > 0, "a model has parameters, and they are counted without overflow");
  require(static_cast<double>(parameters(*model)) <= kMostParameters, "a model has at most so many parameters");
  return 0;
}
