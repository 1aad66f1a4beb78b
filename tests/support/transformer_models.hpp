// Transformers so small that a test trains them: two blocks, 16 features, sequences of 4 tokens.
//
//   RunSpec of = with_model(spec("--gpus 2 --depth 4 --dim 64 --batch 4 --microbatches 2"), tiny_gpt());
#pragma once

#include "sim/model/model.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

inline Layer layer_of(const char* kind, std::array<std::int64_t, kMostLayerSizes> sizes) {
  return {find_layer_kind(kind), sizes};
}

inline constexpr std::int64_t kTinyVocabulary = 24, kTinyFeatures = 16, kTinyTokens = 4;

/// `tied`: 1, or 0 for a head with a weight of its own.
inline Model tiny_gpt(std::int64_t tied = 0, std::int64_t dropout_percent = 0) {
  const Layer block = layer_of("gpt_block", {kTinyFeatures, 2, 32, kTinyTokens, dropout_percent, 1});
  return {{layer_of("gpt_embedding", {kTinyVocabulary, 6, kTinyFeatures, kTinyTokens, dropout_percent}), block, block,
           layer_of("gpt_head", {kTinyFeatures, kTinyVocabulary, kTinyTokens, tied})},
          Loss::cross_entropy};
}

/// Two heads of queries for one of keys.
inline Model tiny_llama(std::int64_t tied = 0) {
  const Layer block = layer_of("llama_block", {kTinyFeatures, 2, 1, 24, kTinyTokens});
  return {{layer_of("embedding", {kTinyVocabulary, kTinyFeatures, kTinyTokens}), block, block,
           layer_of("llama_head", {kTinyFeatures, kTinyVocabulary, kTinyTokens, tied})},
          Loss::cross_entropy};
}

/// The spec's model in the place of its `mlp` of as many layers.
inline RunSpec with_model(RunSpec spec, const Model& model) {
  spec.model = model;
  spec.depth = static_cast<std::int64_t>(model.layers.size());
  spec.dim = input_numbers(model);
  return spec;
}

}  // namespace pdl
