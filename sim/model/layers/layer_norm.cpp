// LayerNorm(features) with weight and bias: y = (x - mean) / sqrt(variance + 1e-5) * w + b, each row by itself.
//
//   forward           keeps its input, and mean and 1 / deviation of every row in fp32
//   backward          dx;  dw, db: sums over the rows
//   autocast          computes in fp32: a half input is cast, and the cast is kept in its place; the result is fp32
//
// Autocast of GPUs does so; that of the CPU leaves the type as it is, and runtime/model/layer_modules.cpp casts as
// GPUs. FLOPs as PyTorch's kernels do them, counted by hand: two sums, a difference, two products and a sum for each
// number. Not here: the partial sums of dw and db that CUDA allocates from 65,536 rows on, and the cast of the fp32
// result that a linear behind it makes under autocast, which is in memory but in no measured time.
//
// Sources: torch/nn/modules/normalization.py, aten/src/ATen/autocast_mode.h (AT_FORALL_FP32),
// aten/src/ATen/native/layer_norm.cpp (PyTorch 2.11).
#include "sim/model/layer.hpp"

namespace pdl {
namespace {

constexpr std::array kLayerNormSizes = {
    LayerSize{"features", "numbers of a sample that go into the layer, and come out"}};

std::int64_t norm_features(const Layer& layer) {
  return layer.sizes[0];
}

std::vector<ParameterTensor> norm_parameters(const Layer& layer) {
  return {{"weight", {norm_features(layer)}}, {"bias", {norm_features(layer)}}};
}

/// The gradients of input and parameters, which of them are computed.
struct NormGradients {
  bool input = false, parameters = false;
};

NormGradients norm_gradients(const LayerWork& work) {
  const bool whole = work.operation == LayerOperation::backward;
  return {work.input_gradient && (whole || work.operation == LayerOperation::backward_input),
          whole || work.operation == LayerOperation::backward_weight};
}

double norm_flops(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(norm_features(layer));
  if (work.operation == LayerOperation::forward) return 6 * numbers;
  const NormGradients gradients = norm_gradients(work);
  return (gradients.input ? 9 : 0) * numbers + (gradients.parameters ? 5 : 0) * numbers;
}

/// Under autocast the input is half, and read once more to be cast.
double norm_bytes(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(norm_features(layer));
  const double cast = is_amp(work.dtype) ? 2 + 4 : 0;
  if (work.operation == LayerOperation::forward) return (cast + 8) * numbers;
  const NormGradients gradients = norm_gradients(work);
  if (!gradients.input) return gradients.parameters ? 8 * numbers : 0;
  return (12 + cast) * numbers;  // reads both, writes one
}

AutogradTensors norm_autograd(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.keeps_input = at.input_number_bytes == kBytesPerNumber;
  if (!tensors.keeps_input) tensors.kept.push_back({at.rows * norm_features(layer), kBytesPerNumber});
  tensors.kept.push_back({at.rows, kBytesPerNumber});  // mean
  tensors.kept.push_back({at.rows, kBytesPerNumber});  // 1 / deviation
  return tensors;
}

/// native_layer_norm and its backward make new tensors, which are copied into the buffers.
PipelineTensors norm_pipeline(const Layer& layer, const PipelineCase& at) {
  const std::int64_t rows = at.rows, numbers = rows * norm_features(layer);
  PipelineTensors tensors;
  tensors.kept = {{rows}, {rows}};                                                 // mean, 1 / deviation
  if (at.input_number_bytes < kBytesPerNumber) tensors.kept.push_back({numbers});  // the input, cast
  tensors.temporary_forward = {{numbers, kBytesPerNumber}, {rows, kBytesPerNumber}, {rows, kBytesPerNumber}};
  tensors.temporary_backward = {{numbers, kBytesPerNumber}};
  return tensors;
}

}  // namespace

extern const LayerKind kLayerNorm;
const LayerKind kLayerNorm = {
    .name = "layer_norm",
    .summary = "a `LayerNorm(features)` with weight and bias",
    .sizes = kLayerNormSizes,
    .scaling = LayerScaling::row_wise,
    .input_numbers = norm_features,
    .output_numbers = norm_features,
    .parameter_tensors = norm_parameters,
    .flops = norm_flops,
    .bytes = norm_bytes,
    .autograd = norm_autograd,
    .pipeline = norm_pipeline,
};

}  // namespace pdl
