// Causal attention, scaled_dot_product_attention(q, k, v, is_causal=True): of heads of queries, and of as many or fewer
// heads of keys and values (grouped queries: each of them serves as many heads of queries).
//
//   scaled_dot_product   inside of others: takes q, k and v, a row is a sequence, tokens x heads x head_size numbers
//
//   attention            stands alone: q, k and v of each token stand one after another in what comes, heads_q x
//                        head_size, heads_kv x head_size, heads_kv x head_size
//
//   forward           softmax(q k^T / sqrt(head_size) + mask) v;  keeps q, k, v, its result, and a number for each
//                     token and head, the logarithm of the sum of its row of the softmax
//   backward          computes the softmax once more; dq, dk, dv
//   autocast          half: a fused kernel, cuDNN's as recorded on H200, which keeps what the flash kernel does; fp32
//                     and TF32: the memory-efficient one, which takes no grouped queries: of these the plain products
//                     (PyTorch 2.11 on H100 and H200)
//
// FLOPs: of what is not masked, half of tokens x tokens: two products forward, five backward.
//
// Sources: aten/src/ATen/native/transformers/attention.cpp, cuda/sdp_utils.cpp (the order in which kernels are tried),
// cuda/flash_attn (PyTorch 2.11); FlashAttention-2, arXiv:2307.08691.
#include <algorithm>

#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kScaledDotProduct, kAttention, kSplit;

namespace {

constexpr std::int64_t kLargestHead = 256;  // that flash attention takes

constexpr std::array kAttentionSizes = {
    LayerSize{"heads", "of queries"}, LayerSize{"kv_heads", "of keys, and of values"},
    LayerSize{"head_size", "numbers of a head", 8, kLargestHead}, LayerSize{"tokens", "of a sequence, a row"}};

std::int64_t queries(const Layer& layer) {
  return layer.sizes[3] * layer.sizes[0] * layer.sizes[2];
}

std::int64_t queries_keys_values(const Layer& layer) {
  return layer.sizes[3] * (layer.sizes[0] + 2 * layer.sizes[1]) * layer.sizes[2];
}

std::vector<ParameterTensor> no_attention_parameters(const Layer&) {
  return {};
}

double attention_flops(const Layer& layer, const LayerWork& work) {
  if (work.operation == LayerOperation::backward_weight || !work.input_gradient) return 0;
  const double a_product = static_cast<double>(layer.sizes[3]) * static_cast<double>(queries(layer));  // 2 x a half
  return static_cast<double>(work.rows) * a_product * (work.operation == LayerOperation::forward ? 2 : 5);
}

double attention_bytes(const Layer& layer, const LayerWork& work) {
  if (work.operation == LayerOperation::backward_weight || !work.input_gradient) return 0;
  const double element = is_amp(work.dtype) ? 2 : 4;
  const auto all = static_cast<double>(queries_keys_values(layer)), of_result = static_cast<double>(queries(layer));
  return static_cast<double>(work.rows) * element *
         (work.operation == LayerOperation::forward ? all + of_result : 2 * all + 2 * of_result);
}

/// _scaled_dot_product_attention_math: queries by head, keys and values repeated for each head, with a root of the
/// scale in the first two, and the softmax whole; what came is not kept. For a moment the scores as well. The backward
/// has the softmax, its gradient and that of the scores at once, and the gradient of the repeated values, while the
/// values and what arrived are gone and what it makes is not yet there.
AutogradTensors plain_products(const Layer& layer, const AutogradCase& at) {
  const std::int64_t once = at.rows * queries(layer);
  const std::int64_t scores = at.rows * layer.sizes[0] * layer.sizes[3] * layer.sizes[3];
  AutogradTensors tensors;
  for (int repeated = 0; repeated < 3; ++repeated) tensors.kept.push_back({once, kBytesPerNumber});
  tensors.kept.push_back({scores, kBytesPerNumber});
  tensors.temporary.push_back({scores, kBytesPerNumber});
  const std::int64_t made = at.rows * queries_keys_values(layer);
  const std::int64_t most = std::max(2 * scores - once, scores + once);
  tensors.backward_temporary.push_back({std::max<std::int64_t>(0, most - made), kBytesPerNumber});
  tensors.between_numbers = 2 * scores;
  return tensors;
}

/// Flash: the gradient of the queries in fp32, of multiples of 128 tokens and 32 numbers of a head, a sum for each row,
/// and with grouped queries gradients of keys and values for each head. Memory-efficient: a sum for each row
/// (cuda/flash_attn/flash_api.cpp, mha_bwd; cuda/attention_backward.cu).
std::vector<TensorSize> fused_backward_temporary(const Layer& layer, const AutogradCase& at) {
  const auto multiple = [](std::int64_t number, std::int64_t of) { return (number + of - 1) / of * of; };
  const std::int64_t heads = at.rows * layer.sizes[0];
  if (!is_amp(at.dtype)) return {{heads * layer.sizes[3], kBytesPerNumber}};
  const std::int64_t tokens = multiple(layer.sizes[3], 128), head_size = multiple(layer.sizes[2], 32);
  std::vector<TensorSize> tensors = {{heads * tokens * head_size, kBytesPerNumber}, {heads * tokens, kBytesPerNumber}};
  if (layer.sizes[1] < layer.sizes[0])
    tensors.insert(tensors.end(), 2, TensorSize{at.rows * queries(layer), kBytesPerNumber / 2});
  return tensors;
}

AutogradTensors attention_autograd(const Layer& layer, const AutogradCase& at) {
  if (!is_amp(at.dtype) && layer.sizes[1] < layer.sizes[0]) return plain_products(layer, at);
  AutogradTensors tensors;
  const std::int64_t of_dtype = is_amp(at.dtype) ? kBytesPerNumber / 2 : kBytesPerNumber;
  tensors.result_number_bytes = of_dtype;
  tensors.gradient_number_bytes = of_dtype;
  tensors.keeps_input = at.input_number_bytes == of_dtype;
  tensors.keeps_result = true;
  if (!tensors.keeps_input) tensors.kept.push_back({at.rows * queries_keys_values(layer), of_dtype});
  tensors.kept.push_back({at.rows * layer.sizes[0] * layer.sizes[3], kBytesPerNumber});
  tensors.backward_temporary = fused_backward_temporary(layer, at);
  return tensors;
}

/// The memory-efficient kernel's sums, of a multiple of 32 tokens, and what it makes before that is copied. It takes no
/// grouped queries: keys and values are repeated. Under autocast the flash kernel's, which takes them on GPUs: what is
/// repeated on the CPU is counted there, too.
PipelineTensors attention_pipeline(const Layer& layer, const PipelineCase& at) {
  constexpr std::int64_t kTokensOfSums = 32;
  const std::int64_t tokens = (layer.sizes[3] + kTokensOfSums - 1) / kTokensOfSums * kTokensOfSums;
  const std::int64_t rows = at.rows, of_dtype = is_amp(at.dtype) ? kBytesPerNumber / 2 : kBytesPerNumber;
  const TensorSize once{rows * queries(layer), of_dtype};
  PipelineTensors tensors;
  tensors.kept = {{rows * layer.sizes[0] * tokens}};
  if (at.input_number_bytes != of_dtype) tensors.kept.push_back({rows * queries_keys_values(layer), of_dtype});
  tensors.temporary_forward = {once, {rows * layer.sizes[0] * tokens, kBytesPerNumber}};
  tensors.temporary_backward = {once, once, once};
  if (layer.sizes[0] == layer.sizes[1]) return tensors;
  for (std::vector<TensorSize>* repeated : {&tensors.temporary_forward, &tensors.temporary_backward})
    repeated->insert(repeated->end(), {once, once});
  return tensors;
}

Layer scaled_dot_product_of_width(std::int64_t width) {
  return {&kScaledDotProduct, {2, 2, std::max<std::int64_t>(8, width / 4 / 8 * 8), 2}};
}

Layer attention_of_width(std::int64_t width) {
  return {&kAttention, scaled_dot_product_of_width(width).sizes};
}

std::vector<InnerLayer> inside_attention(const Layer& layer) {
  return {{.layer = {&kSplit, {queries_keys_values(layer)}}}, {.layer = {&kScaledDotProduct, layer.sizes}, .from = 0}};
}

std::optional<std::pair<std::string, std::string>> attention_refusal(const Layer& layer) {
  if (layer.sizes[0] % layer.sizes[1] != 0)
    return std::pair(
        std::to_string(layer.sizes[0]) + " heads with " + std::to_string(layer.sizes[1]) + " heads of keys and values",
        std::string("a number of heads that those divide"));
  if (layer.sizes[2] % 8 != 0)
    return std::pair("a head size of " + std::to_string(layer.sizes[2]),
                     std::string("a multiple of 8: no attention kernel takes another"));
  return std::nullopt;
}

}  // namespace

const LayerKind kScaledDotProduct = {
    .name = "scaled_dot_product",
    .summary = "causal attention of queries, keys and values",
    .sizes = kAttentionSizes,
    .scaling = LayerScaling::attention,
    .stands_alone = false,
    .of_width = scaled_dot_product_of_width,
    .refusal = attention_refusal,
    .input_numbers = queries,
    .output_numbers = queries,
    .parameter_tensors = no_attention_parameters,
    .flops = attention_flops,
    .bytes = attention_bytes,
    .autograd = attention_autograd,
    .pipeline = attention_pipeline,
};

const LayerKind kAttention = {
    .name = "attention",
    .summary = "causal `scaled_dot_product_attention` of queries, keys and values that stand one after another",
    .sizes = kAttentionSizes,
    .scaling = LayerScaling::composed,
    .inner = inside_attention,
    .of_width = attention_of_width,
    .refusal = attention_refusal,
    .input_numbers = queries_keys_values,
    .output_numbers = queries,
};

}  // namespace pdl
