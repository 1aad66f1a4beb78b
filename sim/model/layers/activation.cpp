// GELU in the form with erf, and SiLU: both number by number, without parameters, and alike in what they move.
//
//   gelu              y = x * Phi(x);       dx = dy * (Phi(x) + x * phi(x))
//   gelu_tanh         y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + .044715 x^3)))
//   silu              y = x * sigmoid(x);   dx = dy * sigmoid(x) * (1 + x * (1 - sigmoid(x)))
//   forward           keeps its input
//   autocast          computes in the type that comes, half behind a linear
//
// FLOPs: an erf or an exp counts as one; of GELU 5 for each number of the forward and 9 of the backward, of SiLU 4 and
// 8; of GELU with tanh 9 and 22.
//
// Sources: torch/nn/modules/activation.py, aten/src/ATen/autocast_mode.h (in no list),
// aten/src/ATen/native/cuda/ActivationGeluKernel.cu, ActivationSiluKernel.cu (PyTorch 2.11).
#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kGelu, kGeluTanh, kSilu;

namespace {

constexpr std::array kActivationSizes = {
    LayerSize{"features", "numbers of a sample that go into the layer, and come out"}};

std::int64_t activation_features(const Layer& layer) {
  return layer.sizes[0];
}

std::vector<ParameterTensor> no_parameters(const Layer&) {
  return {};
}

bool activation_computes(const LayerWork& work) {
  return work.operation == LayerOperation::forward ||
         (work.operation != LayerOperation::backward_weight && work.input_gradient);
}

double activation_flops(const Layer& layer, const LayerWork& work) {
  if (!activation_computes(work)) return 0;
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(activation_features(layer));
  const double of_forward = layer.kind == &kGelu ? 5 : layer.kind == &kSilu ? 4 : 9;
  const double of_backward = layer.kind == &kGeluTanh ? 22 : of_forward + 4;
  return (work.operation == LayerOperation::forward ? of_forward : of_backward) * numbers;
}

/// Forward reads one and writes one, backward reads two and writes one.
double activation_bytes(const Layer& layer, const LayerWork& work) {
  if (!activation_computes(work)) return 0;
  const double numbers = static_cast<double>(work.rows) * static_cast<double>(activation_features(layer));
  const double element = is_amp(work.dtype) ? 2 : 4;
  return (work.operation == LayerOperation::forward ? 2 : 3) * element * numbers;
}

AutogradTensors activation_autograd(const Layer&, const AutogradCase& at) {
  AutogradTensors tensors;
  tensors.result_number_bytes = at.input_number_bytes;
  tensors.gradient_number_bytes = at.input_number_bytes;
  tensors.keeps_input = true;
  return tensors;
}

constexpr LayerKind activation(std::string_view name, std::string_view summary) {
  return {
      .name = name,
      .summary = summary,
      .sizes = kActivationSizes,
      .scaling = LayerScaling::row_wise,
      .input_numbers = activation_features,
      .output_numbers = activation_features,
      .parameter_tensors = no_parameters,
      .flops = activation_flops,
      .bytes = activation_bytes,
      .autograd = activation_autograd,
  };
}

}  // namespace

const LayerKind kGelu = activation("gelu", "a `GELU()`, the form with erf");
const LayerKind kGeluTanh = activation("gelu_tanh", "a `GELU(approximate=\"tanh\")`, as GPT-2 has it");
const LayerKind kSilu = activation("silu", "a `SiLU()`");

}  // namespace pdl
