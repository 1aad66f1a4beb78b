#include "sim/spec/presets.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

constexpr std::string_view kGpt2Paper =
    "Radford et al. 2019, table 2; config.json of openai-community/gpt2* on Hugging Face";
constexpr std::string_view kLlamaPaper = "arXiv:2302.13971, table 2";
constexpr std::string_view kLlama2Paper = "arXiv:2307.09288, table 1; config.json of meta-llama/Llama-2-*-hf";
constexpr std::string_view kLlama3Paper = "arXiv:2407.21783, table 3; config.json of meta-llama/Meta-Llama-3-*";

/// Llama's own code rounds inner sizes up to a multiple of this (multiple_of in its params.json).
constexpr std::int64_t kLlamaInnerMultiple = 256;
/// Llama was trained on 2048 tokens, Llama 2 on 4096, Llama 3 on 8192; one default for all of them, which any takes.
constexpr std::int64_t kLlamaSequence = 2048;
constexpr std::int64_t kGptPositions = 1024;

constexpr std::int64_t usual_inner(TransformerFamily family, std::int64_t hidden) {
  if (family == TransformerFamily::gpt) return 4 * hidden;
  const std::int64_t two_thirds = 8 * hidden / 3;
  return (two_thirds + kLlamaInnerMultiple - 1) / kLlamaInnerMultiple * kLlamaInnerMultiple;
}

constexpr TransformerSizes gpt_sizes(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                     std::int64_t vocabulary) {
  return {.family = TransformerFamily::gpt,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .inner = 4 * hidden,
          .sequence = kGptPositions,
          .vocabulary = vocabulary,
          .positions = kGptPositions,
          .tied = true};
}

constexpr TransformerSizes llama_sizes(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                       std::int64_t kv_heads, std::int64_t inner, std::int64_t vocabulary) {
  return {.family = TransformerFamily::llama,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .inner = inner,
          .sequence = kLlamaSequence,
          .vocabulary = vocabulary};
}

constexpr std::int64_t kGpt2Vocabulary = 50257, kLlamaVocabulary = 32000, kLlama3Vocabulary = 128256;
/// The next multiple of 64, as many trainers of GPT-2 have it: products of such a width are faster.
constexpr std::int64_t kPaddedGptVocabulary = 50304;

constexpr std::array kPresets = {
    Preset{"gpt2", gpt_sizes(12, 768, 12, kGpt2Vocabulary), kGpt2Paper},
    Preset{"gpt2-medium", gpt_sizes(24, 1024, 16, kGpt2Vocabulary), kGpt2Paper},
    Preset{"gpt2-large", gpt_sizes(36, 1280, 20, kGpt2Vocabulary), kGpt2Paper},
    Preset{"gpt2-xl", gpt_sizes(48, 1600, 25, kGpt2Vocabulary), kGpt2Paper},
    Preset{"gpt", gpt_sizes(12, 768, 12, kPaddedGptVocabulary), "", /*is_family=*/true},
    Preset{"llama-7b", llama_sizes(32, 4096, 32, 32, 11008, kLlamaVocabulary), kLlamaPaper},
    Preset{"llama-13b", llama_sizes(40, 5120, 40, 40, 13824, kLlamaVocabulary), kLlamaPaper},
    Preset{"llama-30b", llama_sizes(60, 6656, 52, 52, 17920, kLlamaVocabulary), kLlamaPaper},
    Preset{"llama-65b", llama_sizes(80, 8192, 64, 64, 22016, kLlamaVocabulary), kLlamaPaper},
    Preset{"llama2-7b", llama_sizes(32, 4096, 32, 32, 11008, kLlamaVocabulary), kLlama2Paper},
    Preset{"llama2-13b", llama_sizes(40, 5120, 40, 40, 13824, kLlamaVocabulary), kLlama2Paper},
    Preset{"llama2-70b", llama_sizes(80, 8192, 64, 8, 28672, kLlamaVocabulary), kLlama2Paper},
    Preset{"llama3-8b", llama_sizes(32, 4096, 32, 8, 14336, kLlama3Vocabulary), kLlama3Paper},
    Preset{"llama3-70b", llama_sizes(80, 8192, 64, 8, 28672, kLlama3Vocabulary), kLlama3Paper},
    Preset{"llama", llama_sizes(32, 4096, 32, 32, usual_inner(TransformerFamily::llama, 4096), kLlamaVocabulary), "",
           /*is_family=*/true},
};

Layer layer_of(std::string_view kind, std::initializer_list<std::int64_t> sizes) {
  Layer layer{find_layer_kind(kind), {}};
  std::copy(sizes.begin(), sizes.end(), layer.sizes.begin());
  return layer;
}

Layer embedding_of(const TransformerSizes& s) {
  if (s.family == TransformerFamily::llama) return layer_of("embedding", {s.vocabulary, s.hidden, s.sequence});
  return layer_of("gpt_embedding", {s.vocabulary, s.positions, s.hidden, s.sequence, s.dropout_percent});
}

Layer block_of(const TransformerSizes& s) {
  if (s.family == TransformerFamily::llama)
    return layer_of("llama_block", {s.hidden, s.heads, s.kv_heads, s.inner, s.sequence});
  return layer_of("gpt_block", {s.hidden, s.heads, s.inner, s.sequence, s.dropout_percent, s.gelu_by_tanh ? 1 : 0});
}

Layer head_of(const TransformerSizes& s) {
  return layer_of(s.family == TransformerFamily::llama ? "llama_head" : "gpt_head",
                  {s.hidden, s.vocabulary, s.sequence, s.tied ? 1 : 0});
}

/// Where LayerKind::sizes has it; nullopt if the kind has no such size.
std::optional<std::size_t> place_of_size(const LayerKind& kind, std::string_view name) {
  const auto found = std::ranges::find(kind.sizes, name, &LayerSize::name);
  if (found == kind.sizes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kind.sizes.begin());
}

std::int64_t size_of(const Layer& layer, std::string_view name, std::int64_t otherwise) {
  const auto place = place_of_size(*layer.kind, name);
  return place ? layer.sizes[*place] : otherwise;
}

/// " (--model gpt --layers 48 --hidden 1600 ... --sequence 2048 has as many positions)": the bare family has as many as
/// the sequence. Nothing where it has another activation.
std::string with_as_many_positions(const TransformerSizes& s) {
  if (!s.gelu_by_tanh) return "";
  const auto word = [](const char* name, std::int64_t value) { return std::string(name) + std::to_string(value); };
  return " (--model gpt" + word(" --layers ", s.layers) + word(" --hidden ", s.hidden) + word(" --heads ", s.heads) +
         (s.inner == usual_inner(s.family, s.hidden) ? "" : word(" --inner ", s.inner)) +
         word(" --vocabulary ", s.vocabulary) +
         (s.dropout_percent > 0 ? word(" --dropout-percent ", s.dropout_percent) : "") + (s.tied ? "" : " --tied 0") +
         word(" --sequence ", s.sequence) + " has as many positions)";
}

}  // namespace

std::span<const Preset> presets() {
  return kPresets;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : kPresets) names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  return found == kPresets.end() ? nullptr : &*found;
}

TransformerSizes sizes_of(const Preset& preset, const TransformerSettings& said) {
  const TransformerSizes& published = preset.published;
  TransformerSizes sizes = published;
  sizes.layers = said.layers.value_or(published.layers);
  sizes.hidden = said.hidden.value_or(published.hidden);
  sizes.heads = said.heads.value_or(published.heads);
  sizes.kv_heads = said.kv_heads.value_or(published.kv_heads == published.heads ? sizes.heads : published.kv_heads);
  const bool as_published = sizes.hidden == published.hidden;
  sizes.inner = said.inner.value_or(as_published ? published.inner : usual_inner(sizes.family, sizes.hidden));
  sizes.sequence = said.sequence.value_or(published.sequence);
  sizes.vocabulary = said.vocabulary.value_or(published.vocabulary);
  if (preset.is_family && published.positions > 0) sizes.positions = std::max(published.positions, sizes.sequence);
  sizes.dropout_percent = said.dropout_percent.value_or(0);
  sizes.tied = said.tied.value_or(published.tied);
  return sizes;
}

TransformerSettings settings_of(const TransformerSizes& sizes, std::optional<bool> tied) {
  TransformerSettings settings;
  settings.layers = sizes.layers;
  settings.hidden = sizes.hidden;
  settings.heads = sizes.heads;
  settings.inner = sizes.inner;
  settings.sequence = sizes.sequence;
  settings.vocabulary = sizes.vocabulary;
  if (sizes.family == TransformerFamily::llama) {
    settings.kv_heads = sizes.kv_heads;
  } else {
    settings.dropout_percent = sizes.dropout_percent;
  }
  settings.tied = tied;
  return settings;
}

Model transformer(const TransformerSizes& sizes) {
  Model model;
  model.loss = Loss::cross_entropy;
  model.layers.push_back(embedding_of(sizes));
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(sizes.layers), block_of(sizes));
  model.layers.push_back(head_of(sizes));
  return model;
}

std::optional<TransformerRefusal> refusal_of(const TransformerSizes& sizes) {
  const Layer block = block_of(sizes), embedding = embedding_of(sizes);
  if (const auto refusal = block.kind->refusal(block))
    return TransformerRefusal{refusal->first, refusal->second, TransformerFault::heads};
  if (embedding.kind->refusal) {
    if (const auto refusal = embedding.kind->refusal(embedding))
      return TransformerRefusal{refusal->first, refusal->second + with_as_many_positions(sizes),
                                TransformerFault::sequence};
  }
  const double count = static_cast<double>(sizes.layers) * static_cast<double>(parameters(block)) +
                       static_cast<double>(parameters(embedding)) + static_cast<double>(parameters(head_of(sizes)));
  if (count <= kMostParameters) return std::nullopt;
  return TransformerRefusal{
      std::to_string(sizes.layers) + " blocks of " + std::to_string(parameters(block)) + " parameters",
      "a model of fewer than 2.5e17 parameters", TransformerFault::parameters};
}

std::optional<TransformerSizes> transformer_sizes(const Model& model) {
  const auto first = std::ranges::find_if(model.layers, is_block);
  if (first == model.layers.end()) return std::nullopt;
  TransformerSizes sizes;
  sizes.family = first->kind->name == "llama_block" ? TransformerFamily::llama : TransformerFamily::gpt;
  sizes.layers = std::ranges::count_if(model.layers, is_block);
  sizes.hidden = size_of(*first, "features", 0);
  sizes.heads = size_of(*first, "heads", 0);
  sizes.kv_heads = size_of(*first, "kv_heads", sizes.heads);
  sizes.inner = size_of(*first, "inner", 0);
  sizes.sequence = size_of(*first, "tokens", 0);
  sizes.vocabulary = size_of(model.layers.front(), "vocabulary", 0);
  sizes.positions = size_of(model.layers.front(), "positions", 0);
  sizes.dropout_percent = size_of(*first, "dropout_percent", 0);
  sizes.gelu_by_tanh = size_of(*first, "gelu_tanh", 1) == 1;
  sizes.tied = is_tied(model);
  return sizes;
}

std::int64_t head_weight_numbers(const Model& model) {
  return parameters(inner_layers(model.layers.back()).back().layer);
}

void untie_head(Model& model) {
  Layer& head = model.layers.back();
  if (const auto place = place_of_size(*head.kind, "tied")) head.sizes[*place] = 0;
}

}  // namespace pdl
