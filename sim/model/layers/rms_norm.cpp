// RMSNorm(features) with weight: y = x / sqrt(mean of x^2 + epsilon) * w, each row by itself; epsilon is that of fp32,
// 1.2e-7, as PyTorch has it where none is given.
//
//   forward           keeps its input, and 1 / root of every row in fp32
//   backward          dx;  dw: a sum over the rows
//   autocast          in no list of it; weights are fp32, and an input that is half is cast first, so that the fused
//                     kernel serves, as in models whose residual sums are in fp32; the result is fp32
//
// FLOPs counted by hand, as of layer_norm: a sum, two products, a division for each number. On CPU the same in several
// steps.
//
// Sources: torch/nn/modules/normalization.py, aten/src/ATen/native/layer_norm.cpp (rms_norm, _fused_rms_norm; PyTorch
// 2.11).
#include "sim/model/layer.hpp"

namespace pdl {
namespace {

constexpr std::array kRmsNormSizes = {
    LayerSize{"features", "numbers of a sample that go into the layer, and come out"}};

std::int64_t rms_features(const Layer& layer) {
  return layer.sizes[0];
}

std::vector<ParameterTensor> rms_parameters(const Layer& layer) {
  return {{"weight", {rms_features(layer)}}};
}

bool rms_gives_input(const LayerWork& work) {
  return work.input_gradient && work.operation != LayerOperation::backward_weight;
}

bool rms_gives_weight(const LayerWork& work) {
  return work.operation == LayerOperation::backward || work.operation == LayerOperation::backward_weight;
}

double rms_flops(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(rms_features(layer));
  if (work.operation == LayerOperation::forward) return 4 * numbers;
  return ((rms_gives_input(work) ? 7 : 0) + (rms_gives_weight(work) ? 3 : 0)) * numbers;
}

double rms_bytes(const Layer& layer, const LayerWork& work) {
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(rms_features(layer));
  const double cast = is_amp(work.dtype) ? 2 + 4 : 0;
  if (work.operation == LayerOperation::forward) return (cast + 8) * numbers;
  if (!rms_gives_input(work)) return rms_gives_weight(work) ? 8 * numbers : 0;
  return (12 + cast) * numbers;
}

AutogradTensors rms_autograd(const Layer& layer, const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.keeps_input = at.input_number_bytes == kBytesPerNumber;
  if (!tensors.keeps_input) tensors.kept.push_back({at.rows * rms_features(layer), kBytesPerNumber});
  tensors.kept.push_back({at.rows, kBytesPerNumber});  // 1 / root
  return tensors;
}

/// As layer_norm's: new tensors, which are copied into the buffers.
PipelineTensors rms_pipeline(const Layer& layer, const PipelineCase& at) {
  const std::int64_t rows = at.rows, numbers = rows * rms_features(layer);
  PipelineTensors tensors;
  tensors.kept = {{rows}};
  if (at.input_number_bytes < kBytesPerNumber) tensors.kept.push_back({numbers});  // the input, cast
  tensors.temporary_forward = {{numbers, kBytesPerNumber}, {rows, kBytesPerNumber}};
  tensors.temporary_backward = {{numbers, kBytesPerNumber}};
  return tensors;
}

}  // namespace

extern const LayerKind kRmsNorm;
const LayerKind kRmsNorm = {
    .name = "rms_norm",
    .summary = "an `RMSNorm(features)` with weight",
    .sizes = kRmsNormSizes,
    .scaling = LayerScaling::row_wise,
    .input_numbers = rms_features,
    .output_numbers = rms_features,
    .parameter_tensors = rms_parameters,
    .flops = rms_flops,
    .bytes = rms_bytes,
    .autograd = rms_autograd,
    .pipeline = rms_pipeline,
};

}  // namespace pdl
