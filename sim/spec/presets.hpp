// Transformers by name: their published sizes, and the model that comes of them and of what a user said beside.
//
//   const Preset& gpt2 = *find_preset("gpt2");
//   TransformerSizes sizes = sizes_of(gpt2, {.sequence = 512});   // 12 layers, hidden 768, ..., sequence 512
//   Model model = transformer(sizes);                             // gpt_embedding, 12 x gpt_block, gpt_head
//   parameters(model)                                             // 124,439,808
//
// gpt and llama are the bare families, whose sizes are all settings. Published parameter counts come out exactly. Not
// here: files (sim/model/model.hpp, hugging_face_config.hpp); the dropout that a model was published with: a preset
// has none unless it is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/model/model.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// gpt: learned positions, biases, LayerNorm, GELU by tanh. llama: rotary positions, no biases, RMSNorm, gated MLP.
enum class TransformerFamily : std::uint8_t { gpt, llama };

struct TransformerSizes {
  TransformerFamily family = TransformerFamily::gpt;
  std::int64_t layers = 0;    // blocks
  std::int64_t hidden = 0;    // numbers of a token between blocks
  std::int64_t heads = 0;     // of queries
  std::int64_t kv_heads = 0;  // of keys, and of values; gpt: as many as heads
  std::int64_t inner = 0;     // numbers of a token inside of the MLP
  std::int64_t sequence = 0;  // tokens of a sample
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;        // gpt: that are learned
  std::int64_t dropout_percent = 0;  // gpt
  bool tied = false;                 // the head has the embedding's weight
  bool gelu_by_tanh = true;          // gpt; false: by erf
  bool operator==(const TransformerSizes&) const = default;
};

struct Preset {
  std::string_view name;
  TransformerSizes published;
  std::string_view source;  // of the sizes
  bool is_family = false;   // gpt, llama: nothing was published, positions follow from the sequence
};

/// In the order in which they are listed.
std::span<const Preset> presets();

/// "gpt2, gpt2-medium, ..., llama"
std::string preset_names();

/// nullptr if there is none of that name.
const Preset* find_preset(std::string_view name);

/// What was said, and of the rest what was published. What follows from another size that was said follows it: inner
/// from hidden (gpt: 4 x hidden; llama: 8/3 x hidden, rounded up to a multiple of 256), kv_heads from heads where both
/// were the same, positions of a bare family from the sequence.
TransformerSizes sizes_of(const Preset& preset, const TransformerSettings& said);

/// All of them as settings, but `tied`, which is only what was said; those that the family has not are left out.
TransformerSettings settings_of(const TransformerSizes& sizes, std::optional<bool> tied);

/// gpt_embedding, gpt_block x layers, gpt_head; or embedding, llama_block x layers, llama_head. With cross_entropy.
/// Sizes that do not go together are for refusal_of().
Model transformer(const TransformerSizes& sizes);

/// Which sizes do not go together: heads with the features, the sequence with the positions; more than kMostParameters.
enum class TransformerFault : std::uint8_t { heads, sequence, parameters };

/// Why there is no such model, as LayerKind::refusal says it; and a model of more than kMostParameters. A sequence that
/// is too long is told of the gpt of the same sizes that has as many positions.
struct TransformerRefusal {
  std::string found, expected;
  TransformerFault fault = TransformerFault::heads;
};
std::optional<TransformerRefusal> refusal_of(const TransformerSizes& sizes);

/// What a model is made of that has blocks, wherever it came from; nothing: it has none.
std::optional<TransformerSizes> transformer_sizes(const Model& model);

/// Parameters that a head has for itself where it is tied no more: hidden x vocabulary.
std::int64_t head_weight_numbers(const Model& model);

/// The head of the model gets a weight of its own. Nothing changes where it has one.
void untie_head(Model& model);

}  // namespace pdl
