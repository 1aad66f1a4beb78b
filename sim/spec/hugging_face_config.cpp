#include "sim/spec/hugging_face_config.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
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

constexpr const char* kGpt2 = "gpt2";
constexpr const char* kLlama = "llama";
constexpr const char* kClasses = "GPT2LMHeadModel or LlamaForCausalLM";

/// "gpt2" of "GPT2LMHeadModel", "llama" of "LlamaForCausalLM", which early files write "LLaMAForCausalLM"; else empty.
std::string type_of_class(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.starts_with(kGpt2)) return kGpt2;
  return lower.starts_with(kLlama) ? kLlama : "";
}

void refuse_classes_of_another_type(const JsonPlace& root, const std::string& type) {
  if (!has_value(root, "architectures")) return;
  const JsonPlace list = root.at("architectures").array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (type_of_class(list.at(i).text()) != type)
      list.at(i).refuse("a class of \"" + type + "\", which model_type says, such as " +
                        (type == kGpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM"));
  }
}

/// Of model_type, or of the first of the architectures.
std::string architecture_of(const JsonPlace& root) {
  if (has_value(root, "model_type")) {
    const std::string type = root.at("model_type").text();
    if (type != kGpt2 && type != kLlama) root.at("model_type").refuse("gpt2 or llama");
    refuse_classes_of_another_type(root, type);
    return type;
  }
  const JsonPlace list = root.at("architectures").array();
  if (list.size() == 0) list.refuse(kClasses);
  const std::string type = type_of_class(list.at(0).text());
  if (type.empty()) list.at(0).refuse(kClasses);
  return type;
}

/// Of GPT2Config, where the file says none.
constexpr double kDropoutOfGpt2 = 0.1;

double share_of(const JsonPlace& root, const char* key, double otherwise) {
  return has_value(root, key) ? root.at(key).number(0, 1) : otherwise;
}

/// A share of 1 that is a whole number of hundredths.
std::int64_t percent_of(const JsonPlace& root, const char* key) {
  constexpr std::int64_t kMostPercent = 99;
  const double percent = 100 * share_of(root, key, kDropoutOfGpt2);
  constexpr double kRounding = 1e-9;  // 0.07 x 100 is no whole number in binary
  if (std::abs(percent - std::round(percent)) > kRounding || percent > kMostPercent)
    root.at(key).refuse("a share of whole hundredths below 1, such as 0.1");
  return static_cast<std::int64_t>(std::round(percent));
}

std::int64_t gpt_dropout(const JsonPlace& root, const TransformerSettings& said) {
  if (said.dropout_percent) return *said.dropout_percent;
  const std::int64_t of_residual = percent_of(root, "resid_pdrop"), of_embedding = percent_of(root, "embd_pdrop");
  if (of_embedding == of_residual) return of_residual;
  const auto share = [](std::int64_t percent) { return to_text(static_cast<double>(percent) / 100); };
  throw InputError(root.name() + ": embd_pdrop", share(of_embedding) + " beside resid_pdrop " + share(of_residual),
                   "one dropout, or --dropout-percent");
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

/// What of the file is at fault.
const char* key_of(TransformerFault fault, TransformerFamily family) {
  const bool gpt2 = family == TransformerFamily::gpt;
  switch (fault) {
    case TransformerFault::sequence: return gpt2 ? "n_positions" : "max_position_embeddings";
    case TransformerFault::parameters: return gpt2 ? "n_layer" : "num_hidden_layers";
    case TransformerFault::heads: break;
  }
  return gpt2 ? "n_head" : "num_attention_heads";
}

}  // namespace

bool is_hugging_face_config(const JsonPlace& root) {
  return root.json().is_object() && (root.has("model_type") || root.has("architectures"));
}

std::string words_beside_hugging_face_config(const std::string& path) {
  try {
    const nlohmann::json document = read_json_file(path);
    const JsonPlace root(document, path);
    if (!is_hugging_face_config(root)) return "";
    return architecture_of(root) == kGpt2 ? "--sequence and --dropout-percent" : "--sequence";
  } catch (const InputError&) {  // told when the model is read
    return "";
  }
}

Model read_hugging_face_config(const JsonPlace& root, const TransformerSettings& said) {
  const bool gpt2 = architecture_of(root.object()) == kGpt2;
  const TransformerSizes sizes = gpt2 ? read_gpt2(root, said) : read_llama(root, said);
  if (const auto refusal = refusal_of(sizes))
    throw InputError(root.name() + ": " + key_of(refusal->fault, sizes.family), refusal->found, refusal->expected);
  return transformer(sizes);
}

std::vector<std::string> warnings_of_hugging_face_config(const JsonPlace& root, const TransformerSettings& said) {
  const bool gpt2 = architecture_of(root) == kGpt2;
  const char* key = gpt2 ? "attn_pdrop" : "attention_dropout";
  const double share = share_of(root, key, gpt2 ? kDropoutOfGpt2 : 0);
  if (share == 0 || said.dropout_percent == 0) return {};
  return {root.name() + ": " + key + " " + to_text(share) +
          ", the dropout of the attention's softmax, is not modelled: its time and memory are left out" +
          (gpt2 ? " (--dropout-percent 0: a model without any)" : "")};
}

}  // namespace pdl
