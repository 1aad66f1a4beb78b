// Linear(in, out) with a bias: y = x W^T + b, W is out x in, b is out. As linear_relu with ReLU behind it, y =
// relu(...), which keeps its result. As linear_no_bias without the bias: y = x W^T.
//
//   forward           keeps the input and, where it gives a gradient to that, the weight
//   backward          dZ = dY, with ReLU where Y > 0;  dX = dZ W;  dW = dZ^T X;  db = the sum of dZ over its rows
//   autocast          input, weight and bias are cast to half precision, and the result is half; the cast of an input
//                     that is half already costs nothing
//
// Sources: torch/nn/functional/linear.h, aten/src/ATen/autocast_mode.h (PyTorch 2.11).
#include "sim/model/layer.hpp"

namespace pdl {

extern const LayerKind kLinearRelu, kLinear, kLinearNoBias;

namespace {

constexpr std::array kLinearSizes = {LayerSize{"in", "numbers of a sample that go into the layer"},
                                     LayerSize{"out", "numbers of a sample that come out of it"}};

std::int64_t linear_in(const Layer& layer) {
  return layer.sizes[0];
}

std::int64_t linear_out(const Layer& layer) {
  return layer.sizes[1];
}

std::vector<ParameterTensor> linear_parameters(const Layer& layer) {
  return {{"weight", {linear_out(layer), linear_in(layer)}, /*read_by_input_gradient=*/true},
          {"bias", {linear_out(layer)}}};
}

std::vector<ParameterTensor> linear_weight(const Layer& layer) {
  return {{"weight", {linear_out(layer), linear_in(layer)}, /*read_by_input_gradient=*/true}};
}

/// The input gradient of the model's first layer, which nobody needs: what is left is the ReLU's.
bool is_activation_alone(const LayerWork& work) {
  return work.operation == LayerOperation::backward_input && !work.input_gradient;
}

/// Input and weight gradient.
bool is_whole_backward(const LayerWork& work) {
  return work.operation == LayerOperation::backward && work.input_gradient;
}

double linear_flops(const Layer& layer, const LayerWork& work) {
  const auto rows = static_cast<double>(work.rows);
  const auto in = static_cast<double>(linear_in(layer)), out = static_cast<double>(linear_out(layer));
  if (is_activation_alone(work)) return layer.kind->has_relu ? rows * out : 0;  // a comparison for each number
  const double once = 2 * rows * in * out;
  return is_whole_backward(work) ? 2 * once : once;
}

double linear_bytes(const Layer& layer, const LayerWork& work) {
  const auto rows = static_cast<double>(work.rows);
  const auto in = static_cast<double>(linear_in(layer)), out = static_cast<double>(linear_out(layer));
  if (is_activation_alone(work)) return layer.kind->has_relu ? 3 * 4 * rows * out : 0;
  const double element = is_amp(work.dtype) ? 2 : 4;
  const double weight_accesses = is_whole_backward(work) ? 2 : 1;
  return element * (weight_accesses * in * out + rows * (in + out));
}

AutogradTensors linear_autograd(const Layer& layer, const AutogradCase& at) {
  const std::int64_t in = linear_in(layer), out = linear_out(layer);
  AutogradTensors tensors;
  const std::int64_t half = kBytesPerNumber / 2;
  tensors.result_number_bytes = is_amp(at.dtype) ? half : kBytesPerNumber;
  tensors.gradient_number_bytes = tensors.result_number_bytes;
  tensors.keeps_input = !is_amp(at.dtype) || at.input_number_bytes == half;
  tensors.keeps_result = layer.kind->has_relu;
  if (!tensors.keeps_input) tensors.kept.push_back({at.rows * in, half});
  if (is_amp(at.dtype)) {
    (at.input_gradient ? tensors.kept_parameters : tensors.cached).push_back({in * out, half});
    if (layer.kind->has_bias) tensors.cached.push_back({out, half});
  }
  tensors.summed_columns = layer.kind->has_bias ? out : 0;
  if (!layer.kind->has_relu) return tensors;
  tensors.temporary.push_back({at.rows * out, tensors.result_number_bytes});  // of the Linear: nobody keeps it
  tensors.between_numbers = at.rows * out;                                    // of the ReLU's input
  return tensors;
}

/// Under autocast: the input in half precision, where it does not come so; the gradient of the weight in half precision
/// and cast, before it is added, and that of such an input before it is cast.
PipelineTensors linear_pipeline(const Layer& layer, const PipelineCase& at) {
  PipelineTensors tensors;
  if (!is_amp(at.dtype)) return tensors;
  const std::int64_t half = kBytesPerNumber / 2;
  const TensorSize input{at.rows * linear_in(layer), half}, weight{linear_in(layer) * linear_out(layer), half};
  const bool casts = at.input_number_bytes != half;
  if (casts) tensors.kept = {input};
  const TensorSize cast{weight.numbers};
  if (casts && input.bytes() > weight.bytes() + cast.bytes()) {
    tensors.temporary_backward = {input};
  } else {
    tensors.temporary_backward = {weight, cast};
  }
  return tensors;
}

using ParameterTensors = std::vector<ParameterTensor> (*)(const Layer&);

constexpr LayerKind linear_kind(std::string_view name, std::string_view summary, bool has_relu,
                                ParameterTensors parameters = linear_parameters) {
  return {
      .name = name,
      .summary = summary,
      .sizes = kLinearSizes,
      .scaling = LayerScaling::matrix_product,
      .has_relu = has_relu,
      .has_bias = parameters == linear_parameters,
      .with_activation = has_relu ? nullptr : &kLinearRelu,
      .modules = has_relu ? 2 : 1,
      .input_numbers = linear_in,
      .output_numbers = linear_out,
      .parameter_tensors = parameters,
      .flops = linear_flops,
      .bytes = linear_bytes,
      .autograd = linear_autograd,
      .pipeline = linear_pipeline,
  };
}

}  // namespace

const LayerKind kLinearRelu =
    linear_kind("linear_relu", "a `Linear(in, out)` with a bias, then `ReLU`", /*has_relu=*/true);
const LayerKind kLinear = linear_kind("linear", "a `Linear(in, out)` with a bias", /*has_relu=*/false);

const LayerKind kLinearNoBias =
    linear_kind("linear_no_bias", "a `Linear(in, out, bias=False)`", /*has_relu=*/false, linear_weight);

Layer linear_relu(std::int64_t in, std::int64_t out) {
  return {&kLinearRelu, {in, out}};
}

Layer linear(std::int64_t in, std::int64_t out) {
  return {&kLinear, {in, out}};
}

Layer linear_no_bias(std::int64_t in, std::int64_t out) {
  return {&kLinearNoBias, {in, out}};
}

}  // namespace pdl
