// GELU in the form with erf: y = x * Phi(x), number by number. No parameters.
//
//   forward           keeps its input
//   backward          dx = dy * (Phi(x) + x * phi(x))
//   autocast          computes in the type that comes, half behind a linear_relu
//
// FLOPs: an erf counts as one; 5 for each number of the forward, 9 of the backward.
//
// Sources: torch/nn/modules/activation.py, aten/src/ATen/autocast_mode.h (in no list),
// aten/src/ATen/native/cuda/ActivationGeluKernel.cu (PyTorch 2.11).
#include "sim/model/layer.hpp"

namespace pdl {
namespace {

constexpr std::array kGeluSizes = {LayerSize{"features", "numbers of a sample that go into the layer, and come out"}};

std::int64_t gelu_features(const Layer& layer) {
  return layer.sizes[0];
}

std::vector<ParameterTensor> gelu_parameters(const Layer&) {
  return {};
}

bool gelu_computes(const LayerWork& work) {
  return work.operation == LayerOperation::forward ||
         (work.operation != LayerOperation::backward_weight && work.input_gradient);
}

double gelu_flops(const Layer& layer, const LayerWork& work) {
  if (!gelu_computes(work)) return 0;
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(gelu_features(layer));
  return (work.operation == LayerOperation::forward ? 5 : 9) * numbers;
}

/// Forward reads one and writes one, backward reads two and writes one.
double gelu_bytes(const Layer& layer, const LayerWork& work) {
  if (!gelu_computes(work)) return 0;
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(gelu_features(layer));
  const double element = is_amp(work.dtype) ? 2 : 4;
  return (work.operation == LayerOperation::forward ? 2 : 3) * element * numbers;
}

AutogradTensors gelu_autograd(const Layer&, const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.result_number_bytes = at.input_number_bytes;
  tensors.gradient_number_bytes = at.input_number_bytes;
  tensors.keeps_input = true;
  return tensors;
}

}  // namespace

extern const LayerKind kGelu;
const LayerKind kGelu = {
    .name = "gelu",
    .summary = "a `GELU()`, the form with erf",
    .sizes = kGeluSizes,
    .scaling = LayerScaling::row_wise,
    .input_numbers = gelu_features,
    .output_numbers = gelu_features,
    .parameter_tensors = gelu_parameters,
    .flops = gelu_flops,
    .bytes = gelu_bytes,
    .autograd = gelu_autograd,
};

}  // namespace pdl
