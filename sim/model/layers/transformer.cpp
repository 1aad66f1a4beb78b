// What GPT-2 and Llama are made of: what takes tokens, blocks, heads. A row is a sequence.
//
//   gpt_embedding   embedding + position_embedding [-> dropout]
//   gpt_block       x -> layer_norm -> linear (q, k, v) -> attention -> linear [-> dropout] -> + x
//                     -> layer_norm -> linear -> gelu -> linear [-> dropout] -> + what came into this half
//   gpt_head        layer_norm -> linear without bias, its weight its own or that of the embedding (tied)
//
//   llama_block     x -> rms_norm -> three linears without bias: q, k, v; rotary(q, k) -> attention -> linear -> + x
//                     -> rms_norm -> silu(linear) * linear -> linear -> + what came into this half
//   llama_head      rms_norm -> linear without bias
//
// Parts of a block are "attention" and "mlp", each with its norm and its sum. Dropout of the attention's own softmax is
// not here; where dropout is 0 there is none.
//
// Sources: GPT-2, Radford et al. 2019, and its code; Llama, arXiv:2302.13971; grouped queries, arXiv:2305.13245; as
// torch.nn's modules have them, with scaled_dot_product_attention.
#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kGptEmbedding, kGptBlock, kGptHead, kLlamaBlock, kLlamaHead;
extern const LayerKind kLayerNorm, kRmsNorm, kGelu, kGeluTanh, kSilu, kDropout, kEmbedding, kPositionEmbedding;
extern const LayerKind kSum, kProduct, kRotary, kSplit, kScaledDotProduct;

namespace {

using Refusal = std::optional<std::pair<std::string, std::string>>;

constexpr LayerSize kFeatures{"features", "numbers of a token between blocks"};
constexpr LayerSize kHeads{"heads", "of queries"};
constexpr LayerSize kInner{"inner", "numbers of a token inside of the MLP"};
constexpr LayerSize kTokens{"tokens", "of a sequence"};
constexpr LayerSize kDropoutPercent{"dropout_percent", "of a hundred numbers, those that become 0", 0, 99, 0};
constexpr LayerSize kVocabulary{"vocabulary", "tokens that there are"};

constexpr std::array kGptEmbeddingSizes = {kVocabulary, LayerSize{"positions", "that there are"}, kFeatures, kTokens,
                                           kDropoutPercent};
constexpr std::array kGptBlockSizes = {
    kFeatures, kHeads, kInner, kTokens, kDropoutPercent, LayerSize{"gelu_tanh", "1: GELU by tanh, 0: by erf", 0, 1, 0}};
constexpr std::array kGptHeadSizes = {kFeatures, kVocabulary, kTokens,
                                      LayerSize{"tied", "1: the embedding's weight, 0: one of its own", 0, 1, 0}};
constexpr std::array kLlamaBlockSizes = {kFeatures, kHeads, LayerSize{"kv_heads", "of keys, and of values"}, kInner,
                                         kTokens};
constexpr std::array kLlamaHeadSizes = {kFeatures, kVocabulary, kTokens,
                                        LayerSize{"tied", "1: the embedding's weight, 0: one of its own", 0, 1, 0}};

/// A list that is made from front to back.
class Chain {
 public:
  /// Takes what the last one gives, if nothing else is said. Gives its place.
  int add(InnerLayer inner) {
    list_.push_back(inner);
    return last();
  }
  int add(Layer layer, std::int64_t rows, std::string_view part) {
    return add({.layer = layer, .from = last(), .rows = rows, .part = part});
  }
  int last() const { return static_cast<int>(list_.size()) - 1; }
  std::vector<InnerLayer> take() { return std::move(list_); }

 private:
  std::vector<InnerLayer> list_;
};

// ---- GPT-2

std::int64_t gpt_embedding_tokens(const Layer& layer) {
  return layer.sizes[3];
}

std::int64_t gpt_embedding_numbers(const Layer& layer) {
  return layer.sizes[3] * layer.sizes[2];
}

std::vector<InnerLayer> inside_gpt_embedding(const Layer& layer) {
  const auto [vocabulary, positions, features, tokens, dropout, unused] = layer.sizes;
  Chain chain;
  chain.add({&kEmbedding, {vocabulary, features, tokens}}, 1, "");
  chain.add({&kPositionEmbedding, {positions, features, tokens}}, 1, "");
  if (dropout > 0) chain.add({&kDropout, {features, dropout}}, tokens, "");
  return chain.take();
}

Refusal refuse_positions(const Layer& layer) {
  return kPositionEmbedding.refusal({&kPositionEmbedding, {layer.sizes[1], layer.sizes[2], layer.sizes[3]}});
}

std::int64_t gpt_block_numbers(const Layer& layer) {
  return layer.sizes[3] * layer.sizes[0];
}

std::vector<InnerLayer> inside_gpt_block(const Layer& layer) {
  // Not by a structured binding: clang 14 captures none.
  const std::int64_t features = layer.sizes[0], heads = layer.sizes[1], inner = layer.sizes[2];
  const std::int64_t tokens = layer.sizes[3], dropout = layer.sizes[4], tanh = layer.sizes[5];
  const auto add_residual = [&](Chain& chain, int skipped, std::string_view part) {
    if (dropout > 0) chain.add({&kDropout, {features, dropout}}, tokens, part);
    return chain.add({{&kSum, {features}}, chain.last(), skipped, tokens, part});
  };
  Chain chain;
  chain.add({&kLayerNorm, {features}}, tokens, "attention");
  chain.add(linear(features, 3 * features), tokens, "attention");
  chain.add({&kSplit, {3 * features}}, tokens, "attention");
  chain.add({&kScaledDotProduct, {heads, heads, features / heads, tokens}}, 1, "attention");
  chain.add(linear(features, features), tokens, "attention");
  const int between = add_residual(chain, InnerLayer::kInput, "attention");
  chain.add({&kLayerNorm, {features}}, tokens, "mlp");
  chain.add(linear(features, inner), tokens, "mlp");
  chain.add({tanh == 1 ? &kGeluTanh : &kGelu, {inner}}, tokens, "mlp");
  chain.add(linear(inner, features), tokens, "mlp");
  add_residual(chain, between, "mlp");
  return chain.take();
}

Refusal refuse_heads(std::int64_t features, std::int64_t heads, std::int64_t kv_heads, std::int64_t tokens) {
  if (features % heads != 0)
    return std::pair(std::to_string(heads) + " heads for " + std::to_string(features) + " features",
                     std::string("a number of heads that divides the features"));
  if (features / heads < 8 || features / heads > 256)
    return std::pair("a head size of " + std::to_string(features / heads),
                     std::string("8 to 256: no attention kernel takes another"));
  return kScaledDotProduct.refusal({&kScaledDotProduct, {heads, kv_heads, features / heads, tokens}});
}

Refusal refuse_gpt_heads(const Layer& layer) {
  return refuse_heads(layer.sizes[0], layer.sizes[1], layer.sizes[1], layer.sizes[3]);
}

std::int64_t head_input(const Layer& layer) {
  return layer.sizes[2] * layer.sizes[0];
}

std::int64_t head_output(const Layer& layer) {
  return layer.sizes[2] * layer.sizes[1];
}

std::vector<InnerLayer> inside_head(const Layer& layer) {
  const auto [features, vocabulary, tokens, tied, unused, unused_too] = layer.sizes;
  Chain chain;
  chain.add({layer.kind == &kGptHead ? &kLayerNorm : &kRmsNorm, {features}}, tokens, "");
  chain.add({.layer = linear_no_bias(features, vocabulary), .from = 0, .rows = tokens, .tied = tied == 1});
  return chain.take();
}

// ---- Llama

std::int64_t llama_block_numbers(const Layer& layer) {
  return layer.sizes[4] * layer.sizes[0];
}

std::vector<InnerLayer> inside_llama_block(const Layer& layer) {
  const std::int64_t features = layer.sizes[0], heads = layer.sizes[1], kv_heads = layer.sizes[2];
  const std::int64_t inner = layer.sizes[3], tokens = layer.sizes[4];
  const std::int64_t head_size = features / heads, kv = kv_heads * head_size;
  constexpr std::string_view kAttentionPart = "attention", kMlpPart = "mlp";
  Chain chain;
  const int norm = chain.add({&kRmsNorm, {features}}, tokens, kAttentionPart);
  const auto product = [&](int from, std::int64_t in, std::int64_t out, std::string_view part) {
    return chain.add({.layer = linear_no_bias(in, out), .from = from, .rows = tokens, .part = part});
  };
  const int q = product(norm, features, features, kAttentionPart);
  const int k = product(norm, features, kv, kAttentionPart);
  const int v = product(norm, features, kv, kAttentionPart);
  const int rotated = chain.add({{&kRotary, {heads, kv_heads, head_size, tokens}}, q, k, 1, kAttentionPart});
  chain.add({{&kScaledDotProduct, {heads, kv_heads, head_size, tokens}}, rotated, v, 1, kAttentionPart});
  product(chain.last(), features, features, kAttentionPart);
  const int between = chain.add({{&kSum, {features}}, chain.last(), InnerLayer::kInput, tokens, kAttentionPart});
  const int second = chain.add({&kRmsNorm, {features}}, tokens, kMlpPart);
  product(second, features, inner, kMlpPart);
  const int gate = chain.add({&kSilu, {inner}}, tokens, kMlpPart);
  const int up = product(second, features, inner, kMlpPart);
  chain.add({{&kProduct, {inner}}, gate, up, tokens, kMlpPart});
  product(chain.last(), inner, features, kMlpPart);
  chain.add({{&kSum, {features}}, chain.last(), between, tokens, kMlpPart});
  return chain.take();
}

Refusal refuse_llama_heads(const Layer& layer) {
  return refuse_heads(layer.sizes[0], layer.sizes[1], layer.sizes[2], layer.sizes[4]);
}

// ---- examples: two tokens, heads of 8 numbers or more

std::int64_t features_of(std::int64_t width) {
  return std::max<std::int64_t>(16, width / 2 / 16 * 16);
}

Layer gpt_embedding_of_width(std::int64_t width) {
  return {&kGptEmbedding, {64, 4, features_of(width), 2, 0, 0}};
}

Layer gpt_block_of_width(std::int64_t width) {
  return {&kGptBlock, {features_of(width), 2, 2 * features_of(width), 2, 0, 0}};
}

Layer head_of_width(const LayerKind& kind, std::int64_t width) {
  return {&kind, {features_of(width), 24, 2, 0}};
}

Layer gpt_head_of_width(std::int64_t width) {
  return head_of_width(kGptHead, width);
}

Layer llama_head_of_width(std::int64_t width) {
  return head_of_width(kLlamaHead, width);
}

Layer llama_block_of_width(std::int64_t width) {
  return {&kLlamaBlock, {features_of(width), 2, 1, 2 * features_of(width), 2}};
}

constexpr LayerKind head_kind(std::string_view name, std::string_view summary, std::span<const LayerSize> sizes,
                              Layer (*of_width)(std::int64_t)) {
  return {
      .name = name,
      .summary = summary,
      .sizes = sizes,
      .scaling = LayerScaling::composed,
      .modules = 2,
      .inner = inside_head,
      .of_width = of_width,
      .input_numbers = head_input,
      .output_numbers = head_output,
  };
}

}  // namespace

const LayerKind kGptEmbedding = {
    .name = "gpt_embedding",
    .summary = "GPT-2's embedding with learned positions",
    .sizes = kGptEmbeddingSizes,
    .scaling = LayerScaling::composed,
    .modules = 3,
    .takes_tokens = true,
    .inner = inside_gpt_embedding,
    .of_width = gpt_embedding_of_width,
    .refusal = refuse_positions,
    .input_numbers = gpt_embedding_tokens,
    .output_numbers = gpt_embedding_numbers,
};

const LayerKind kGptBlock = {
    .name = "gpt_block",
    .summary = "a block of GPT-2: attention and MLP, each with its `LayerNorm` and its residual sum",
    .sizes = kGptBlockSizes,
    .scaling = LayerScaling::composed,
    .modules = 11,
    .inner = inside_gpt_block,
    .of_width = gpt_block_of_width,
    .refusal = refuse_gpt_heads,
    .input_numbers = gpt_block_numbers,
    .output_numbers = gpt_block_numbers,
};

const LayerKind kGptHead =
    head_kind("gpt_head", "`LayerNorm`, then a linear to the vocabulary", kGptHeadSizes, gpt_head_of_width);

const LayerKind kLlamaBlock = {
    .name = "llama_block",
    .summary = "a block of Llama: attention with rotary positions and gated MLP, each with its `RMSNorm` and its sum",
    .sizes = kLlamaBlockSizes,
    .scaling = LayerScaling::composed,
    .modules = 15,
    .inner = inside_llama_block,
    .of_width = llama_block_of_width,
    .refusal = refuse_llama_heads,
    .input_numbers = llama_block_numbers,
    .output_numbers = llama_block_numbers,
};

const LayerKind kLlamaHead =
    head_kind("llama_head", "`RMSNorm`, then a linear to the vocabulary", kLlamaHeadSizes, llama_head_of_width);

}  // namespace pdl
