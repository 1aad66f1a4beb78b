// Embedding(vocabulary, features) of a sequence of tokens, whole numbers of 8 bytes; and learned positions that are
// added to it: y = x + Embedding(positions, features)(0, 1, 2, ...), the same for each sequence.
//
//   forward           keeps the tokens
//   backward          a dense gradient: zeros, then the rows of the tokens that occur; of the positions the sum over
//                     the sequences first
//   autocast          in no list of it: parameters and results are fp32
//
// FLOPs: a sum for each number that is added. Not here: sparse gradients, padding.
//
// Sources: torch/nn/modules/sparse.py, aten/src/ATen/native/cuda/Embedding.cu (PyTorch 2.11).
#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kEmbedding, kPositionEmbedding;

namespace {

constexpr std::array kEmbeddingSizes = {LayerSize{"vocabulary", "tokens that there are"},
                                        LayerSize{"features", "numbers of a token that come out"},
                                        LayerSize{"tokens", "of a sequence"}};
constexpr std::array kPositionSizes = {LayerSize{"positions", "that there are, at least as many as tokens"},
                                       LayerSize{"features", "numbers of a token that go in, and come out"},
                                       LayerSize{"tokens", "of a sequence"}};

std::int64_t embedding_rows(const Layer& layer) {
  return layer.sizes[0];
}

std::int64_t embedding_features(const Layer& layer) {
  return layer.sizes[1];
}

std::int64_t embedding_tokens(const Layer& layer) {
  return layer.sizes[2];
}

std::int64_t embedding_numbers(const Layer& layer) {
  return embedding_tokens(layer) * embedding_features(layer);
}

std::vector<ParameterTensor> embedding_parameters(const Layer& layer) {
  return {{"weight", {embedding_rows(layer), embedding_features(layer)}}};
}

double embedding_flops(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(embedding_numbers(layer));
  const bool forward = work.operation == LayerOperation::forward;
  if (forward) return layer.kind == &kPositionEmbedding ? numbers : 0;
  return work.operation == LayerOperation::backward_input ? 0 : numbers;
}

double embedding_bytes(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(embedding_numbers(layer));
  const double parameters = static_cast<double>(embedding_rows(layer) * embedding_features(layer));
  if (work.operation == LayerOperation::forward) return 4 * 2 * numbers;
  if (work.operation == LayerOperation::backward_input) return 0;
  // Of positions the gradient is read once, and what is summed over the sequences is no larger than the parameters.
  return 4 * ((layer.kind == &kPositionEmbedding ? 1 : 2) * numbers + parameters);
}

/// What embedding_dense_backward takes beside the dense gradient, where there are more than 3,072 tokens, which it then
/// sorts: a sum for each run of ten equal ones, and for each token that there may be (EmbeddingBackwardKernel.cu,
/// embedding_backward_cuda_kernel: max_partial_segment, stride_warped). Not here: lists of indices, 8 bytes a token.
std::vector<TensorSize> sums_of_sorted_tokens(const Layer& layer, std::int64_t rows) {
  constexpr std::int64_t kUnsorted = 3072, kRun = 10, kWarp = 32;
  const std::int64_t tokens = rows * embedding_tokens(layer);
  if (layer.kind != &kEmbedding || tokens <= kUnsorted) return {};
  const std::int64_t width = (embedding_features(layer) + kWarp - 1) / kWarp * kWarp;
  return {{(tokens / kRun + std::min(tokens, embedding_rows(layer))) * width, kBytesPerNumber}};
}

AutogradTensors embedding_autograd(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors;
  if (layer.kind == &kEmbedding) {
    tensors.keeps_input = true;
    tensors.backward_temporary = sums_of_sorted_tokens(layer, at.rows);
  } else {
    tensors.backward_temporary.push_back({embedding_numbers(layer), kBytesPerNumber});  // the sum over the sequences
    tensors.kept.push_back({embedding_tokens(layer), 8});                               // 0, 1, 2, ...
    tensors.temporary.push_back({embedding_numbers(layer), kBytesPerNumber});
    tensors.result_number_bytes = std::max(at.input_number_bytes, kBytesPerNumber);
  }
  return tensors;
}

/// The dense gradient, before it is copied or added: of the table, or of the positions of a sequence.
PipelineTensors embedding_pipeline(const Layer& layer, const PipelineCase& at) {
  const std::int64_t entries = layer.kind == &kEmbedding ? embedding_rows(layer) : embedding_tokens(layer);
  PipelineTensors tensors;
  tensors.temporary_backward = sums_of_sorted_tokens(layer, at.rows);
  tensors.temporary_backward.push_back({entries * embedding_features(layer), kBytesPerNumber});
  return tensors;
}

Layer embedding_of_width(std::int64_t width) {
  return {&kEmbedding, {64, std::max<std::int64_t>(1, width / 2), 2}};
}

Layer positions_of_width(std::int64_t width) {
  return {&kPositionEmbedding, {4, std::max<std::int64_t>(1, width / 2), 2}};
}

std::optional<std::pair<std::string, std::string>> positions_refusal(const Layer& layer) {
  if (embedding_tokens(layer) <= embedding_rows(layer)) return std::nullopt;
  return std::pair("a sequence of " + std::to_string(embedding_tokens(layer)) + " tokens with " +
                       std::to_string(embedding_rows(layer)) + " positions",
                   std::string("at most as many tokens as positions"));
}

}  // namespace

const LayerKind kEmbedding = {
    .name = "embedding",
    .summary = "an `Embedding(vocabulary, features)` of a sequence of tokens",
    .sizes = kEmbeddingSizes,
    .scaling = LayerScaling::row_wise,
    .takes_tokens = true,
    .of_width = embedding_of_width,
    .input_numbers = embedding_tokens,
    .output_numbers = embedding_numbers,
    .parameter_tensors = embedding_parameters,
    .flops = embedding_flops,
    .bytes = embedding_bytes,
    .autograd = embedding_autograd,
    .pipeline = embedding_pipeline,
};

const LayerKind kPositionEmbedding = {
    .name = "position_embedding",
    .summary = "learned positions, an `Embedding(positions, features)` that is added",
    .sizes = kPositionSizes,
    .scaling = LayerScaling::row_wise,
    .of_width = positions_of_width,
    .refusal = positions_refusal,
    .input_numbers = embedding_numbers,
    .output_numbers = embedding_numbers,
    .parameter_tensors = embedding_parameters,
    .flops = embedding_flops,
    .bytes = embedding_bytes,
    .autograd = embedding_autograd,
    .pipeline = embedding_pipeline,
};

}  // namespace pdl
