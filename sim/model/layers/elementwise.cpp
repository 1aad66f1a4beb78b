// What takes each number by itself, or a row of them: dropout and softmax, which stand alone, and what is inside of
// others: a sum, a product of two tensors, a cast under autocast, the rotation of queries and keys by their positions.
//
//   dropout    y = x * mask / (1 - p)                      keeps the mask, a byte a number
//   softmax    y = exp(x - max) / sum, each row            keeps its result; autocast: in fp32
//   sum        y = a + b                                   keeps nothing; autocast: b is half, and so is its gradient
//   product    y = a * b                                   keeps both
//   cast       y = half(x)                                 keeps nothing; the gradient is cast back
//   rotary     y = x cos + rotated(x) sin, of queries and of keys       keeps nothing
//   split      views of what comes: queries, keys and values of one product; backward: puts them together
//
//   gradient_sum    what goes two ways: nothing; backward: the two gradients are added
//
// Sources: torch/nn/modules/dropout.py, activation.py, aten/src/ATen/native/cuda/Dropout.cu, SoftMax.cu (PyTorch 2.11);
// rotary positions: arXiv:2104.09864, halves rotated against each other as Llama's code of Hugging Face does.
#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kDropout, kSoftmax, kSum, kProduct, kCast, kRotary, kSplit, kGradientSum;

namespace {

constexpr std::array kElementwiseSizes = {
    LayerSize{"features", "numbers of a sample that go into the layer, and come out"}};
constexpr std::array kDropoutSizes = {LayerSize{"features", "numbers of a sample that go into the layer, and come out"},
                                      LayerSize{"percent", "numbers that become 0, of a hundred", 1, 99}};
constexpr std::array kRotarySizes = {LayerSize{"heads", "of queries"}, LayerSize{"kv_heads", "of keys, and of values"},
                                     LayerSize{"head_size", "numbers of a head", 2},
                                     LayerSize{"tokens", "of a sequence, a row"}};

std::int64_t elementwise_features(const Layer& layer) {
  return layer.sizes[0];
}

std::int64_t rotary_queries(const Layer& layer) {
  return layer.sizes[3] * layer.sizes[0] * layer.sizes[2];
}

std::int64_t rotary_numbers(const Layer& layer) {
  return layer.sizes[3] * (layer.sizes[0] + layer.sizes[1]) * layer.sizes[2];
}

std::vector<ParameterTensor> no_elementwise_parameters(const Layer&) {
  return {};
}

/// What an operation reads and writes of each number, in numbers of the type that comes, and what it computes.
struct OfANumber {
  double forward_accesses = 2, backward_accesses = 3, forward_flops = 1, backward_flops = 1;
};

OfANumber of_a_number(const LayerKind* kind) {
  if (kind == &kDropout) return {2.25, 2.25, 3, 1};
  if (kind == &kSoftmax) return {2, 3, 4, 3};
  if (kind == &kSum) return {3, 1.5, 1, 0};
  if (kind == &kProduct) return {3, 6, 1, 2};
  if (kind == &kCast) return {1.5, 1.5, 0, 0};
  if (kind == &kSplit) return {0, 2, 0, 0};
  if (kind == &kGradientSum) return {0, 3, 0, 1};
  return {10, 10, 3, 3};  // rotary: a kernel each for -, cat, two *, +
}

bool elementwise_computes(const LayerWork& work) {
  return work.operation == LayerOperation::forward ||
         (work.operation != LayerOperation::backward_weight && work.input_gradient);
}

double numbers_of(const Layer& layer, const LayerWork& work) {
  return static_cast<double>(work.rows) * static_cast<double>(output_numbers(layer));
}

double elementwise_flops(const Layer& layer, const LayerWork& work) {
  if (!elementwise_computes(work)) return 0;
  const OfANumber of = of_a_number(layer.kind);
  return (work.operation == LayerOperation::forward ? of.forward_flops : of.backward_flops) * numbers_of(layer, work);
}

double elementwise_bytes(const Layer& layer, const LayerWork& work) {
  if (!elementwise_computes(work)) return 0;
  OfANumber of = of_a_number(layer.kind);
  if (layer.kind == &kSum) of = is_amp(work.dtype) ? OfANumber{2.5, 1.5} : OfANumber{3, 0};
  const bool in_fp32 = !is_amp(work.dtype) || layer.kind == &kSum || layer.kind == &kCast;
  return (in_fp32 ? 4 : 2) * (work.operation == LayerOperation::forward ? of.forward_accesses : of.backward_accesses) *
         numbers_of(layer, work);
}

/// In the type that comes.
AutogradTensors as_it_comes(const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.result_number_bytes = at.input_number_bytes;
  tensors.gradient_number_bytes = at.input_number_bytes;
  return tensors;
}

AutogradTensors keeps_nothing(const Layer&, const AutogradCase& at) {
  return as_it_comes(at);
}

AutogradTensors keeps_inputs(const Layer&, const AutogradCase& at) {
  AutogradTensors tensors = as_it_comes(at);
  tensors.keeps_input = true;
  return tensors;
}

AutogradTensors keeps_mask(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors = as_it_comes(at);
  tensors.kept.push_back({at.rows * elementwise_features(layer), 1});
  return tensors;
}

/// Backward: of queries, the larger, the product with the sines, a half of it turned, and that in its place, are there
/// at once, while keys have theirs already and what arrived for them is gone.
AutogradTensors rotary_autograd(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors = as_it_comes(at);
  const std::int64_t a_head = at.rows * layer.sizes[2] * layer.sizes[3];
  const std::int64_t more = 3 * layer.sizes[0] * a_head / 2 - layer.sizes[1] * a_head;
  tensors.backward_temporary.push_back({more, at.input_number_bytes});
  return tensors;
}

AutogradTensors softmax_autograd(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.keeps_result = true;
  if (at.input_number_bytes != kBytesPerNumber)
    tensors.temporary.push_back({at.rows * elementwise_features(layer), kBytesPerNumber});
  return tensors;
}

AutogradTensors cast_autograd(const Layer&, const AutogradCase& at) {
  AutogradTensors tensors = as_it_comes(at);
  tensors.result_number_bytes = is_amp(at.dtype) ? kBytesPerNumber / 2 : kBytesPerNumber;
  return tensors;
}

using Autograd = AutogradTensors (*)(const Layer&, const AutogradCase&);

constexpr LayerKind elementwise(std::string_view name, std::string_view summary, std::span<const LayerSize> sizes,
                                Autograd autograd, bool stands_alone, std::int64_t modules = 1) {
  return {
      .name = name,
      .summary = summary,
      .sizes = sizes,
      .scaling = LayerScaling::row_wise,
      .modules = modules,
      .stands_alone = stands_alone,
      .input_numbers = elementwise_features,
      .output_numbers = elementwise_features,
      .parameter_tensors = no_elementwise_parameters,
      .flops = elementwise_flops,
      .bytes = elementwise_bytes,
      .autograd = autograd,
  };
}

Layer dropout_of_width(std::int64_t width) {
  return {&kDropout, {width, 10}};
}

/// The mask, as numbers that are 0 or 1.
PipelineTensors dropout_pipeline(const Layer& layer, const PipelineCase& at) {
  PipelineTensors tensors;
  tensors.kept = {{at.rows * elementwise_features(layer), at.input_number_bytes}};
  return tensors;
}

/// Of an input in half precision the input, and then its gradient, are there in fp32 for a moment.
PipelineTensors softmax_pipeline(const Layer& layer, const PipelineCase& at) {
  const TensorSize once{at.rows * elementwise_features(layer)};
  PipelineTensors tensors;
  tensors.temporary_backward = {once};
  if (at.input_number_bytes == kBytesPerNumber) return tensors;
  tensors.temporary_forward = {once};
  tensors.temporary_backward.push_back(once);
  return tensors;
}

/// Two heads of queries and two of keys, of two tokens.
Layer rotary_of_width(std::int64_t width) {
  return {&kRotary, {2, 2, std::max<std::int64_t>(2, width / 8 * 2), 2}};
}

constexpr LayerKind dropout_kind() {
  LayerKind kind = elementwise("dropout", "a `Dropout(percent / 100)`", kDropoutSizes, keeps_mask, true);
  kind.of_width = dropout_of_width;
  kind.pipeline = dropout_pipeline;
  return kind;
}

constexpr LayerKind softmax_kind() {
  LayerKind kind = elementwise("softmax", "a `Softmax(dim=-1)` of a sample", kElementwiseSizes, softmax_autograd, true);
  kind.pipeline = softmax_pipeline;
  return kind;
}

/// From one type to another under autocast, whatever comes.
constexpr LayerKind mixed_types(LayerKind kind) {
  kind.mixes_types = true;
  return kind;
}

constexpr LayerKind rotary_kind() {
  LayerKind kind = elementwise("rotary", "rotary positions of queries and keys", kRotarySizes, rotary_autograd,
                               /*stands_alone=*/false);
  kind.of_width = rotary_of_width;
  kind.input_numbers = rotary_queries;
  kind.output_numbers = rotary_numbers;
  return kind;
}

}  // namespace

const LayerKind kDropout = dropout_kind();
const LayerKind kSoftmax = softmax_kind();
const LayerKind kSum =
    mixed_types(elementwise("sum", "the sum of two tensors", kElementwiseSizes, keeps_nothing, false));
const LayerKind kProduct =
    elementwise("product", "the product of two tensors, number by number", kElementwiseSizes, keeps_inputs, false);
const LayerKind kCast =
    mixed_types(elementwise("cast", "a cast to half precision", kElementwiseSizes, cast_autograd, false, 0));
const LayerKind kRotary = rotary_kind();
const LayerKind kSplit =
    elementwise("split", "queries, keys and values of one product", kElementwiseSizes, keeps_nothing, false);
const LayerKind kGradientSum =
    elementwise("gradient_sum", "the gradients of what goes two ways", kElementwiseSizes, keeps_nothing, false, 0);

}  // namespace pdl
