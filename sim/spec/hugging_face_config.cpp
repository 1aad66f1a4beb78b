#include "sim/spec/hugging_face_config.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/io/error.hpp"
#include "sim/spec/presets.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestSize = 10'000'000;  // as LayerSize::largest
constexpr std::int64_t kMostBlocks = 1'000'000;    // as --layers

/// A key that is null is as good as none: so the files have it.
bool has_value(const JsonPlace& root, const char* key) {
  return root.has(key) && !root.at(key).json().is_null();
}

std::int64_t size_of(const JsonPlace& root, const char* key) {
  return root.at(key).whole(1, kLargestSize);
}

std::int64_t size_of(const JsonPlace& root, const char* key, std::int64_t otherwise) {
  return has_value(root, key) ? size_of(root, key) : otherwise;
}

bool is_true(const JsonPlace& root, const char* key, bool otherwise) {
  return has_value(root, key) ? root.at(key).boolean() : otherwise;
}

/// "gpt2" of model_type, or of "GPT2LMHeadModel", the first of the architectures.
std::string architecture_of(const JsonPlace& root) {
  if (has_value(root, "model_type")) return root.at("model_type").text();
  const JsonPlace list = root.at("architectures").array();
  if (list.size() == 0) list.refuse("GPT2LMHeadModel or LlamaForCausalLM");
  const std::string name = list.at(0).text();
  if (name.starts_with("GPT2")) return "gpt2";
  return name.starts_with("Llama") ? "llama" : name;
}

/// A share of 1 that is a whole number of hundredths.
std::int64_t percent_of(const JsonPlace& root, const char* key) {
  constexpr double kOfClass = 0.1;  // GPT2Config
  constexpr std::int64_t kMostPercent = 99;
  const double percent = 100 * (has_value(root, key) ? root.at(key).number(0, 1) : kOfClass);
  constexpr double kRounding = 1e-9;  // 0.07 x 100 is no whole number in binary
  if (std::abs(percent - std::round(percent)) > kRounding || percent > kMostPercent)
    root.at(key).refuse("a share of whole hundredths below 1, such as 0.1");
  return static_cast<std::int64_t>(std::round(percent));
}

std::int64_t gpt_dropout(const JsonPlace& root, const TransformerSettings& said) {
  if (said.dropout_percent) return *said.dropout_percent;
  const std::int64_t percent = percent_of(root, "resid_pdrop");
  if (percent_of(root, "embd_pdrop") == percent) return percent;
  throw InputError(root.name(), "embd_pdrop and resid_pdrop that differ", "one dropout, or --dropout-percent");
}

bool gelu_by_tanh(const JsonPlace& root) {
  const std::string name = has_value(root, "activation_function") ? root.at("activation_function").text() : "gelu_new";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return true;
  if (name != "gelu") root.at("activation_function").refuse("gelu_new, gelu_pytorch_tanh or gelu");
  return false;
}

TransformerSizes read_gpt2(const JsonPlace& root, const TransformerSettings& said) {
  const TransformerSizes usual = find_preset("gpt2")->published;
  TransformerSizes sizes = usual;
  sizes.hidden = size_of(root, "n_embd");
  sizes.layers = root.at("n_layer").whole(1, kMostBlocks);
  sizes.heads = sizes.kv_heads = size_of(root, "n_head");
  sizes.positions = size_of(root, "n_positions", usual.positions);
  sizes.vocabulary = size_of(root, "vocab_size");
  sizes.inner = size_of(root, "n_inner", 4 * sizes.hidden);
  sizes.sequence = said.sequence.value_or(std::min(usual.sequence, sizes.positions));
  sizes.dropout_percent = gpt_dropout(root, said);
  sizes.gelu_by_tanh = gelu_by_tanh(root);
  sizes.tied = is_true(root, "tie_word_embeddings", true);
  return sizes;
}

void refuse_bias(const JsonPlace& root, const char* key) {
  if (is_true(root, key, false)) root.at(key).refuse("false: a llama_block has no biases");
}

TransformerSizes read_llama(const JsonPlace& root, const TransformerSettings& said) {
  const TransformerSizes usual = find_preset("llama")->published;
  TransformerSizes sizes = usual;
  sizes.hidden = size_of(root, "hidden_size");
  sizes.layers = root.at("num_hidden_layers").whole(1, kMostBlocks);
  sizes.heads = size_of(root, "num_attention_heads");
  sizes.kv_heads = size_of(root, "num_key_value_heads", sizes.heads);
  sizes.inner = size_of(root, "intermediate_size");
  sizes.vocabulary = size_of(root, "vocab_size");
  const std::int64_t positions = size_of(root, "max_position_embeddings", usual.sequence);
  sizes.sequence = said.sequence.value_or(std::min(usual.sequence, positions));
  sizes.tied = is_true(root, "tie_word_embeddings", false);
  if (has_value(root, "hidden_act") && root.at("hidden_act").text() != "silu") root.at("hidden_act").refuse("silu");
  refuse_bias(root, "attention_bias");
  refuse_bias(root, "mlp_bias");
  if (has_value(root, "head_dim") && size_of(root, "head_dim") * sizes.heads != sizes.hidden)
    root.at("head_dim")
        .refuse("hidden_size / num_attention_heads, " + std::to_string(sizes.hidden) + " / " +
                std::to_string(sizes.heads));
  if (said.dropout_percent)
    throw InputError("--dropout-percent", std::to_string(*said.dropout_percent),
                     "no dropout-percent: a llama_block has no dropout");
  return sizes;
}

}  // namespace

bool is_hugging_face_config(const JsonPlace& root) {
  return root.json().is_object() && (root.has("model_type") || root.has("architectures"));
}

Model read_hugging_face_config(const JsonPlace& root, const TransformerSettings& said) {
  const std::string architecture = architecture_of(root.object());
  if (architecture != "gpt2" && architecture != "llama")
    root.at(has_value(root, "model_type") ? "model_type" : "architectures").refuse("gpt2 or llama");
  const TransformerSizes sizes = architecture == "gpt2" ? read_gpt2(root, said) : read_llama(root, said);
  if (const auto refusal = refusal_of(sizes)) throw InputError(root.name(), refusal->found, refusal->expected);
  return transformer(sizes);
}

}  // namespace pdl
