// The table of kinds of layers. To add one: a file under sim/model/layers/, a line here, its module in
// runtime/model/layer_modules.cpp, a test, a line in docs/formats-model.md.
#include "sim/model/layer.hpp"

#include <algorithm>
#include <array>

namespace pdl {

extern const LayerKind kLinearRelu, kLinear, kLinearNoBias;
extern const LayerKind kLayerNorm, kRmsNorm, kGelu, kGeluTanh, kSilu, kDropout, kSoftmax;
extern const LayerKind kEmbedding, kPositionEmbedding, kAttention;
extern const LayerKind kGptEmbedding, kGptBlock, kGptHead, kLlamaBlock, kLlamaHead;
extern const LayerKind kScaledDotProduct, kSum, kProduct, kCast, kRotary, kSplit, kGradientSum;

std::span<const LayerKind* const> layer_kinds() {
  static constexpr std::array kKinds = {
      &kLinearRelu, &kLinear,       &kLinearNoBias, &kLayerNorm, &kRmsNorm,    &kGelu,
      &kGeluTanh,   &kSilu,         &kDropout,      &kSoftmax,   &kEmbedding,  &kPositionEmbedding,
      &kAttention,  &kGptEmbedding, &kGptBlock,     &kGptHead,   &kLlamaBlock, &kLlamaHead};
  return kKinds;
}

std::span<const LayerKind* const> inner_kinds() {
  static constexpr std::array kKinds = {&kScaledDotProduct, &kSum, &kProduct, &kCast, &kRotary, &kSplit, &kGradientSum};
  return kKinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  for (const auto kinds : {layer_kinds(), inner_kinds()}) {
    const auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind* kind) { return kind->name == name; });
    if (found != kinds.end()) return *found;
  }
  return nullptr;
}

}  // namespace pdl
