#include <ATen/ATen.h>
#include <torch/nn/functional/linear.h>
#include <torch/types.h>

#include <array>

#include "runtime/model/autocast.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/model/layer_module.hpp"

namespace pdl {
namespace {

void draw_linear(Tensors parameters, std::int64_t index, std::uint64_t seed) {
  initialise_layer(parameters[0], parameters[1], index, seed);
}

void draw_weight(Tensors parameters, std::int64_t index, std::uint64_t seed) {
  initialise_layer(parameters[0], {}, index, seed);
}

LayerValue forward_linear(const ModuleForward& at) {
  return {torch::nn::functional::linear(at.x(), at.parameters[0], at.parameters[1])};
}

LayerValue forward_linear_relu(const ModuleForward& at) {
  return {torch::relu(forward_linear(at).tensor)};
}

LayerValue forward_linear_no_bias(const ModuleForward& at) {
  return {torch::nn::functional::linear(at.x(), at.parameters[0])};
}

enum class After { nothing, relu };
enum class Bias { no, yes };

/// Per layer, x is rows x in, W is out x in, dY is rows x out:
///
///   forward    Y  = X W^T + b, or its ReLU   one GEMM; bias and ReLU in its epilogue on CUDA
///                                            (which kernel: runtime/model/matrix_products.hpp)
///   backward   dZ = dY, of ReLU where Y > 0  in place
///              dX = dZ W                     not for the first layer of the model
///              dW = dZ^T X  (+ dW)           gradients of later micro-batches are added by the GEMM itself (beta = 1)
///              db = dZ^T 1  (+ db)
template <Bias kBias, After kAfter>
class LinearLayer : public PipelineLayer {
 public:
  explicit LinearLayer(const PipelineLayerParts& parts)
      : weight_(parts.parameters[0]),
        weight_transposed_(weight_.t()),
        weight_gradient_(parts.gradients[0]),
        products_(parts.products),
        weight_products_(parts.weight_products) {
    if (kBias == Bias::no) return;
    bias_ = parts.parameters[1];
    bias_gradient_ = parts.gradients[1];
  }

  void forward(const LayerForward& at) override { products_.run(forward_product(at)); }

  void begin_backward(const LayerBackward& at) override {
    if (kAfter == After::relu) at::threshold_backward_out(at.gradient, at.gradient, at.result, 0);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    products_.run(input_gradient_product(at, gradient));
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    weight_products_.run(weight_gradient_product(at, accumulate));
    if (kBias == Bias::no) return;
    at::addmv_out(bias_gradient_, bias_gradient_, at.gradient_transposed, at.ones, accumulate ? 1 : 0, at.factor);
  }

  bool takes_factor() const override { return true; }

  void tune(const LayerForward& forward, const LayerBackward& backward, at::Tensor& gradient,
            bool accumulates) override {
    products_.tune(forward_product(forward));
    if (gradient.defined()) products_.tune(input_gradient_product(backward, gradient));
    weight_products_.tune(weight_gradient_product(backward, false));
    if (accumulates) weight_products_.tune(weight_gradient_product(backward, true));
  }

 private:
  MatrixProduct forward_product(const LayerForward& at) const {
    return {at.result, at.input, weight_transposed_, 1, 0, bias_, kAfter == After::relu};
  }
  MatrixProduct input_gradient_product(const LayerBackward& at, at::Tensor& gradient) const {
    return {gradient, at.gradient, weight_, at.factor, 0, no_bias_};
  }
  MatrixProduct weight_gradient_product(const LayerBackward& at, bool accumulate) {
    return {weight_gradient_, at.gradient_transposed, at.input, at.factor, accumulate ? 1.0 : 0.0, no_bias_};
  }

  at::Tensor weight_, weight_transposed_, weight_gradient_;
  at::Tensor bias_, bias_gradient_;  // undefined: there is none
  const at::Tensor no_bias_;
  MatrixProducts& products_;
  MatrixProducts& weight_products_;
};

/// The same under autocast, in half precision: W and b are cast once a step. An input that comes in fp32 is cast and
/// kept; its gradient is cast back. Gradients of W and b come in half precision, as autograd's do, and are added up in
/// fp32.
template <Bias kBias, After kAfter>
class HalfLinearLayer : public PipelineLayer {
 public:
  explicit HalfLinearLayer(const PipelineLayerParts& parts)
      : casts_input_(parts.input_number_bytes == kBytesPerNumber),
        weight_(parts.parameters[0]),
        weight_gradient_(parts.gradients[0]),
        half_weight_(half_copy(weight_, parts.dtype)),
        half_weight_transposed_(half_weight_.t()),
        products_(parts.products),
        weight_products_(parts.weight_products) {
    if (kBias == Bias::no) return;
    bias_ = parts.parameters[1];
    bias_gradient_ = parts.gradients[1];
    half_bias_ = half_copy(bias_, parts.dtype);
  }

  void parameters_changed() override {
    half_weight_.copy_(weight_);
    if (kBias == Bias::yes) half_bias_.copy_(bias_);
  }

  void forward(const LayerForward& at) override {
    const at::Tensor input = half_input(at.input, at.kept);
    if (casts_input_) input.copy_(at.input);
    products_.run({at.result, input, half_weight_transposed_, 1, 0, half_bias_, kAfter == After::relu});
  }

  void begin_backward(const LayerBackward& at) override {
    if (kAfter == After::relu) at::threshold_backward_out(at.gradient, at.gradient, at.result, 0);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    if (!casts_input_) return products_.run({gradient, at.gradient, half_weight_, 1, 0, no_bias_});
    at::Tensor half = at::empty(gradient.sizes(), at.gradient.options());
    products_.run({half, at.gradient, half_weight_, 1, 0, no_bias_});
    gradient.copy_(half);
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    at::Tensor half = at::empty_like(half_weight_);
    weight_products_.run({half, at.gradient_transposed, half_input(at.input, at.kept), 1, 0, no_bias_});
    add(weight_gradient_, half, accumulate);
    half.reset();
    if (kBias == Bias::yes) add(bias_gradient_, at.gradient.sum(0), accumulate);
  }

 private:
  static at::Tensor half_copy(const at::Tensor& parameter, Dtype dtype) {
    return at::empty(parameter.sizes(), parameter.options().dtype(half_type(dtype)));
  }

  at::Tensor half_input(const at::Tensor& input, Tensors kept) const {
    return casts_input_ ? kept[0].view_as(input) : input;
  }

  /// By a cast, as autograd adds: a sum of two types makes one on the CPU anyway.
  static void add(at::Tensor& sum, const at::Tensor& half, bool accumulate) {
    accumulate ? sum.add_(half.to(at::kFloat)) : sum.copy_(half);
  }

  bool casts_input_;
  at::Tensor weight_, weight_gradient_;
  at::Tensor half_weight_, half_weight_transposed_;
  at::Tensor bias_, bias_gradient_, half_bias_;  // undefined: there is none
  const at::Tensor no_bias_;
  MatrixProducts& products_;
  MatrixProducts& weight_products_;
};

template <Bias kBias, After kAfter>
std::unique_ptr<PipelineLayer> make_linear(const PipelineLayerParts& parts) {
  if (is_amp(parts.dtype)) return std::make_unique<HalfLinearLayer<kBias, kAfter>>(parts);
  return std::make_unique<LinearLayer<kBias, kAfter>>(parts);
}

}  // namespace

std::span<const LayerModule> linear_modules() {
  static constexpr std::array kModules = {
      LayerModule{"linear_relu", draw_linear, forward_linear_relu, make_linear<Bias::yes, After::relu>},
      LayerModule{"linear", draw_linear, forward_linear, make_linear<Bias::yes, After::nothing>},
      LayerModule{"linear_no_bias", draw_weight, forward_linear_no_bias, make_linear<Bias::no, After::nothing>},
  };
  return kModules;
}

}  // namespace pdl
