// The table of kinds of layers. To add one: a file under sim/model/layers/, a line here, its module in
// runtime/model/layer_modules.cpp, a test, a line in docs/formats-model.md.
#include "sim/model/layer.hpp"

#include <algorithm>
#include <array>

namespace pdl {

extern const LayerKind kLinearRelu;
extern const LayerKind kLinear;
extern const LayerKind kLayerNorm;
extern const LayerKind kGelu;
extern const LayerKind kSilu;

std::span<const LayerKind* const> layer_kinds() {
  static constexpr std::array kKinds = {&kLinearRelu, &kLinear, &kLayerNorm, &kGelu, &kSilu};
  return kKinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const auto kinds = layer_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind* kind) { return kind->name == name; });
  return found == kinds.end() ? nullptr : *found;
}

}  // namespace pdl
