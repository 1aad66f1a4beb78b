#include "runtime/model/layer_modules.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/nn/functional/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "runtime/model/initial_values.hpp"

namespace pdl {
namespace {

using Tensors = std::span<const at::Tensor>;

// ---- linear, linear_relu

void draw_linear(Tensors parameters, std::int64_t index, std::uint64_t seed) {
  initialise_layer(parameters[0], parameters[1], index, seed);
}

at::Tensor forward_linear(const at::Tensor& x, Tensors parameters) {
  return torch::nn::functional::linear(x, parameters[0], parameters[1]);
}

at::Tensor forward_linear_relu(const at::Tensor& x, Tensors parameters) {
  return torch::relu(forward_linear(x, parameters));
}

/// Per layer, x is rows x in, W is out x in, dY is rows x out:
///
///   forward    Y  = X W^T + b, or its ReLU   one GEMM; bias and ReLU in its epilogue on CUDA
///                                            (which kernel: runtime/model/matrix_products.hpp)
///   backward   dZ = dY, of ReLU where Y > 0  in place
///              dX = dZ W                     not for the first layer of the model
///              dW = dZ^T X  (+ dW)           gradients of later micro-batches are added by the GEMM itself (beta = 1)
///              db = dZ^T 1  (+ db)
template <bool kRelu>
class LinearLayer : public PipelineLayer {
 public:
  explicit LinearLayer(const PipelineLayerParts& parts)
      : weight_(parts.parameters[0]),
        weight_transposed_(weight_.t()),
        bias_(parts.parameters[1]),
        weight_gradient_(parts.gradients[0]),
        bias_gradient_(parts.gradients[1]),
        products_(parts.products),
        weight_products_(parts.weight_products) {}

  void forward(const LayerForward& at) override { products_.run(forward_product(at)); }

  void begin_backward(const LayerBackward& at) override {
    if (kRelu) at::threshold_backward_out(at.gradient, at.gradient, at.result, 0);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    products_.run(input_gradient_product(at, gradient));
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    weight_products_.run(weight_gradient_product(at, accumulate));
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
    return {at.result, at.input, weight_transposed_, 1, 0, bias_, kRelu};
  }
  MatrixProduct input_gradient_product(const LayerBackward& at, at::Tensor& gradient) const {
    return {gradient, at.gradient, weight_, at.factor, 0, no_bias_};
  }
  MatrixProduct weight_gradient_product(const LayerBackward& at, bool accumulate) {
    return {weight_gradient_, at.gradient_transposed, at.input, at.factor, accumulate ? 1.0 : 0.0, no_bias_};
  }

  at::Tensor weight_, weight_transposed_, bias_, weight_gradient_, bias_gradient_;
  const at::Tensor no_bias_;
  MatrixProducts& products_;
  MatrixProducts& weight_products_;
};

// ---- layer_norm

constexpr double kLayerNormEpsilon = 1e-5;  // PyTorch's default

void draw_layer_norm(Tensors parameters, std::int64_t, std::uint64_t) {
  at::Tensor(parameters[0]).fill_(1);
  at::Tensor(parameters[1]).zero_();
}

/// In fp32 under autocast too, as autocast of GPUs has it (AT_FORALL_FP32); that of the CPU leaves the type as it is.
at::Tensor forward_layer_norm(const at::Tensor& x, Tensors parameters) {
  return torch::layer_norm(x.to(at::kFloat), parameters[0].sizes(), parameters[0], parameters[1], kLayerNormEpsilon);
}

/// By LibTorch's own kernels, which make new tensors: copied into the buffers.
class LayerNormLayer : public PipelineLayer {
 public:
  explicit LayerNormLayer(const PipelineLayerParts& parts)
      : weight_(parts.parameters[0]),
        bias_(parts.parameters[1]),
        weight_gradient_(parts.gradients[0]),
        bias_gradient_(parts.gradients[1]) {}

  void forward(const LayerForward& at) override {
    const auto [result, mean, inverse_deviation] =
        at::native_layer_norm(at.input, weight_.sizes(), weight_, bias_, kLayerNormEpsilon);
    at.result.copy_(result);
    at.statistics[0].copy_(mean);
    at.statistics[1].copy_(inverse_deviation);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    gradient.copy_(std::get<0>(gradients(at, {true, false, false})));
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    const auto [of_input, of_weight, of_bias] = gradients(at, {false, true, true});
    accumulate ? weight_gradient_.add_(of_weight) : weight_gradient_.copy_(of_weight);
    accumulate ? bias_gradient_.add_(of_bias) : bias_gradient_.copy_(of_bias);
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients(const LayerBackward& at, std::array<bool, 3> wanted) const {
    return at::native_layer_norm_backward(at.gradient, at.input, weight_.sizes(), at.statistics[0], at.statistics[1],
                                          weight_, bias_, wanted);
  }

  at::Tensor weight_, bias_, weight_gradient_, bias_gradient_;
};

// ---- gelu, silu

at::Tensor forward_gelu(const at::Tensor& x, Tensors) {
  return torch::gelu(x);
}

class GeluLayer : public PipelineLayer {
 public:
  explicit GeluLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { at::gelu_out(at.result, at.input); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::gelu_backward_out(gradient, at.gradient, at.input);
  }
};

at::Tensor forward_silu(const at::Tensor& x, Tensors) {
  return torch::silu(x);
}

class SiluLayer : public PipelineLayer {
 public:
  explicit SiluLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { at::silu_out(at.result, at.input); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::silu_backward_out(gradient, at.gradient, at.input);
  }
};

// ---- the table

struct LayerModule {
  std::string_view kind;
  std::size_t parameters;                                                    // tensors
  void (*draw)(Tensors parameters, std::int64_t index, std::uint64_t seed);  // null: no parameters
  at::Tensor (*forward)(const at::Tensor& x, Tensors parameters);
  std::unique_ptr<PipelineLayer> (*make)(const PipelineLayerParts& parts);
};

template <typename Kind>
std::unique_ptr<PipelineLayer> make_layer(const PipelineLayerParts& parts) {
  return std::make_unique<Kind>(parts);
}

constexpr std::array kModules = {
    LayerModule{"linear_relu", 2, draw_linear, forward_linear_relu, make_layer<LinearLayer<true>>},
    LayerModule{"linear", 2, draw_linear, forward_linear, make_layer<LinearLayer<false>>},
    LayerModule{"layer_norm", 2, draw_layer_norm, forward_layer_norm, make_layer<LayerNormLayer>},
    LayerModule{"gelu", 0, nullptr, forward_gelu, make_layer<GeluLayer>},
    LayerModule{"silu", 0, nullptr, forward_silu, make_layer<SiluLayer>},
};

const LayerModule& module_of(const Layer& layer) {
  const auto found = std::find_if(kModules.begin(), kModules.end(),
                                  [&](const LayerModule& module) { return module.kind == layer.kind->name; });
  TORCH_CHECK(found != kModules.end(), "no module for layers of kind ", std::string(layer.kind->name));
  return *found;
}

}  // namespace

std::vector<at::Tensor> make_parameters(const Layer& layer, std::int64_t index, at::Device device, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters;
  for (const ParameterTensor& tensor : parameter_tensors(layer))
    parameters.push_back(at::empty(tensor.shape, at::TensorOptions().device(device).dtype(at::kFloat)));
  const LayerModule& module = module_of(layer);
  TORCH_CHECK(module.parameters == parameters.size(), "a module and its kind disagree: ", to_text(layer));
  if (module.draw) module.draw(parameters, index, seed);
  return parameters;
}

at::Tensor forward_layers(std::span<const Layer> layers, at::Tensor x, Tensors parameters) {
  std::size_t next = 0;
  for (const Layer& layer : layers) {
    const LayerModule& module = module_of(layer);
    x = module.forward(x, parameters.subspan(next, module.parameters));
    next += module.parameters;
  }
  return x;
}

std::unique_ptr<PipelineLayer> make_pipeline_layer(const Layer& layer, const PipelineLayerParts& parts) {
  return module_of(layer).make(parts);
}

}  // namespace pdl
