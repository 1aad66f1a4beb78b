#include "sim/cost/layer_model.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// A kernel that moves next to nothing, and the gap before it.
constexpr double kLaunch_ns = 3e3;

struct Beside {
  double bytes = 0;
  double kernels = 0;
};

/// Counted from what LibTorch's modules launch, and the pipeline's stages (runtime/model/layer_modules.cpp).
Beside beside_products(const MeasuredKey& layer) {
  const auto rows = static_cast<double>(layer.size);
  const auto in = static_cast<double>(input_numbers(layer.layer)),
             out = static_cast<double>(output_numbers(layer.layer));
  const auto number = static_cast<double>(product_number_bytes(layer.dtype.value_or(Dtype::fp32)));
  const bool amp = layer.dtype && is_amp(*layer.dtype);
  const bool autograd = layer.implementation == "autograd";
  const bool relu = layer.layer.kind->has_relu, bias = layer.layer.kind->has_bias;
  Beside beside;
  if (layer.operation == "forward") {
    if (autograd && relu) beside = {2 * rows * out * number, 1};                           // ReLU
    if (amp) beside = {beside.bytes + in * out * 6, beside.kernels + (bias ? 2.0 : 1.0)};  // copies of weight and bias
    return beside;
  }
  if (relu) beside = {3 * rows * out * number, 1};  // its backward
  if (layer.operation == "backward_input") return beside;
  if (layer.operation == "backward_weight") beside = {};
  const double tensors = bias ? 2 : 1;
  if (bias) beside = {beside.bytes + rows * out * number, beside.kernels + 1};  // its gradient
  if (autograd && layer.accumulate) beside = {beside.bytes + 12 * in * out, beside.kernels + tensors};
  if (amp) beside = {beside.bytes + 6 * in * out, beside.kernels + tensors};  // the gradient to fp32
  return beside;
}

double in_whole_tiles(std::int64_t numbers) {
  constexpr std::int64_t kTile = 128;
  return static_cast<double>((numbers + kTile - 1) / kTile * kTile);
}

}  // namespace

std::vector<std::string> products_of(const MeasuredKey& layer) {
  if (layer.operation == "forward") return {"forward"};
  std::vector<std::string> operations;
  if (layer.operation != "backward_weight" && layer.input_gradient) operations.push_back("backward_input");
  if (layer.operation != "backward_input") operations.push_back("backward_weight");
  return operations;
}

std::optional<ModelledOperation> LayerModel::of_odd_widths(const MeasuredKey& layer) const {
  constexpr double kFlopsPerNs = 1e5;  // whatever: the share of those that were measured has the rate
  // Of a block, in steps of depth: 1600 deep takes 1.996 times as long as 768 in bf16, 1.977 in TF32 (forward, H200).
  constexpr double kStartAndEnd = 64;
  if (layer.layer.kind->scaling != LayerScaling::matrix_product || !layer.dtype) return std::nullopt;
  const ProductSize size{layer.size, input_numbers(layer.layer), output_numbers(layer.layer)};
  ModelledOperation modelled;
  for (const std::string& operation : products_of(layer)) {
    const ProductShape shape = product_shape({layer.implementation, operation, *layer.dtype}, size);
    const double depth = static_cast<double>(shape.k) + kStartAndEnd;
    modelled.ns += 2 * in_whole_tiles(shape.m) * in_whole_tiles(shape.n) * depth / kFlopsPerNs;
  }
  modelled.beside_ns = beside_ns(layer);
  modelled.ns += modelled.beside_ns;
  return modelled;
}

double LayerModel::beside_ns(const MeasuredKey& layer) const {
  const Beside beside = beside_products(layer);
  return beside.bytes / bytes_per_ns_ + beside.kernels * kLaunch_ns;
}

std::optional<ModelledOperation> LayerModel::at(const MeasuredKey& layer) const {
  if (layer.layer.kind->scaling != LayerScaling::matrix_product || !layer.dtype) return std::nullopt;
  const ProductSize size{layer.size, input_numbers(layer.layer), output_numbers(layer.layer)};
  ModelledOperation modelled;
  std::vector<std::string> operations = products_of(layer);
  // In a stage at the start of the model the first layer alone has no input gradient: of an even share of such a stage.
  double input_gradients = 1;
  if (layer.layers > 1 && !layer.input_gradient && operations == std::vector<std::string>{"backward_weight"}) {
    operations.insert(operations.begin(), "backward_input");
    input_gradients = static_cast<double>(layer.layers - 1) / static_cast<double>(layer.layers);
  }
  for (const std::string& operation : operations) {
    auto time = products_.at({layer.implementation, operation, *layer.dtype}, size);
    if (!time) {  // as LibTorch's own products, for which the library was not asked
      time = products_.at({"autograd", operation, *layer.dtype}, size);
      modelled.covered = false;
    }
    if (!time) return std::nullopt;
    modelled.ns += time->ns * (operation == "backward_input" ? input_gradients : 1);
    modelled.covered = modelled.covered && time->covered;
    modelled.octaves_beyond = std::max(modelled.octaves_beyond, time->octaves_beyond);
    modelled.products.push_back({time->kernel->tiling.name, time->ns, time->blocks, time->resident, 1});
  }
  modelled.beside_ns = beside_ns(layer);
  modelled.ns += modelled.beside_ns;
  return modelled;
}

}  // namespace pdl
