#include <ATen/ATen.h>
#include <torch/types.h>

#include <array>

#include "runtime/model/initial_values.hpp"
#include "runtime/model/layer_module.hpp"

namespace pdl {
namespace {

// ---- gelu, gelu_tanh, silu

enum class Gelu { erf, tanh };

template <Gelu kForm>
constexpr const char* name_of_form() {
  return kForm == Gelu::tanh ? "tanh" : "none";
}

template <Gelu kForm>
LayerValue forward_gelu(const ModuleForward& at) {
  return {torch::gelu(at.x(), name_of_form<kForm>())};
}

template <Gelu kForm>
class GeluLayer : public PipelineLayer {
 public:
  explicit GeluLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { at::gelu_out(at.result, at.input, name_of_form<kForm>()); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::gelu_backward_out(gradient, at.gradient, at.input, name_of_form<kForm>());
  }
};

LayerValue forward_silu(const ModuleForward& at) {
  return {torch::silu(at.x())};
}

class SiluLayer : public PipelineLayer {
 public:
  explicit SiluLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { at::silu_out(at.result, at.input); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::silu_backward_out(gradient, at.gradient, at.input);
  }
};

// ---- dropout

double dropped(const Layer& layer) {
  return static_cast<double>(layer.sizes[1]) / 100;
}

LayerValue forward_dropout(const ModuleForward& at) {
  return {torch::dropout(at.x(), dropped(at.layer), /*train=*/true)};
}

/// Keeps the mask: 0, or 1 / (1 - p); in half precision, where that would be off by as much for all numbers, 0 or 1. A
/// forward that is done again draws the same one.
class DropoutLayer : public PipelineLayer {
 public:
  explicit DropoutLayer(const PipelineLayerParts& parts)
      : dropped_(dropped(parts.layer)),
        index_(parts.index),
        seed_(parts.seed),
        in_half_(parts.input_number_bytes < kBytesPerNumber) {}

  void forward(const LayerForward& at) override {
    at::Tensor mask = at.kept[0].view_as(at.input);
    draw_mask(mask, 1 - dropped_, index_, at.draw, seed_);
    if (!in_half_) mask.mul_(1 / (1 - dropped_));
    at::mul_out(at.result, at.input, mask);
    if (in_half_) at.result.mul_(1 / (1 - dropped_));
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::mul_out(gradient, at.gradient, at.kept[0].view_as(at.gradient));
    if (in_half_) gradient.mul_(1 / (1 - dropped_));
  }

 private:
  double dropped_;
  std::int64_t index_;
  std::uint64_t seed_;
  bool in_half_;
};

// ---- softmax

/// In fp32 under autocast, as that of GPUs has it; that of the CPU leaves the type as it is.
LayerValue forward_softmax(const ModuleForward& at) {
  return {torch::softmax(at.x().is_cuda() ? at.x() : at.x().to(at::kFloat), -1)};
}

class SoftmaxLayer : public PipelineLayer {
 public:
  explicit SoftmaxLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override {
    at::_softmax_out(at.result, at.input.to(at::kFloat), -1, /*half_to_float=*/false);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    const bool in_half = gradient.scalar_type() != at::kFloat;
    at::Tensor in_fp32 = in_half ? at::empty_like(at.gradient) : gradient;
    at::_softmax_backward_data_out(in_fp32, at.gradient, at.result, -1, at::kFloat);
    if (in_half) gradient.copy_(in_fp32);
  }
};

// ---- inside of others: sum, product, split

LayerValue forward_sum(const ModuleForward& at) {
  return {at.other + at.x()};
}

/// Its gradient is that of both of its inputs (passes_gradient, sim/model/inner_layers.hpp).
class SumLayer : public PipelineLayer {
 public:
  explicit SumLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { add_types(at.result, at.other, at.input); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override { gradient.copy_(at.gradient); }
};

LayerValue forward_product(const ModuleForward& at) {
  return {at.x() * at.other};
}

class ProductLayer : public PipelineLayer {
 public:
  explicit ProductLayer(const PipelineLayerParts&) {}

  void forward(const LayerForward& at) override { at::mul_out(at.result, at.input, at.other); }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    at::mul_out(gradient, at.gradient, at.other);
  }

  void input_gradients(const LayerBackward& at, at::Tensor& gradient, at::Tensor& other_gradient) override {
    input_gradient(at, gradient);
    at::mul_out(other_gradient, at.gradient, at.input);
  }
};

/// What comes: who takes it makes the views.
LayerValue forward_split(const ModuleForward& at) {
  return at.input;
}

/// Nothing runs: its result is the memory of what comes, and its gradient is passed on.
class SplitLayer : public PipelineLayer {
 public:
  explicit SplitLayer(const PipelineLayerParts&) {}
  void forward(const LayerForward&) override {}
  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override { gradient.copy_(at.gradient); }
};

}  // namespace

void add_types(at::Tensor& result, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type() || result.is_cuda()) {
    at::add_out(result, a, b);
    return;
  }
  // The CPU would cast one of them to a tensor of its own.
  const bool casts_a = a.scalar_type() != result.scalar_type();
  result.copy_(casts_a ? a : b).add_(casts_a ? b : a);
}

std::span<const LayerModule> elementwise_modules() {
  static constexpr std::array kModules = {
      LayerModule{"gelu", nullptr, forward_gelu<Gelu::erf>, make_layer<GeluLayer<Gelu::erf>>},
      LayerModule{"gelu_tanh", nullptr, forward_gelu<Gelu::tanh>, make_layer<GeluLayer<Gelu::tanh>>},
      LayerModule{"silu", nullptr, forward_silu, make_layer<SiluLayer>},
      LayerModule{"dropout", nullptr, forward_dropout, make_layer<DropoutLayer>},
      LayerModule{"softmax", nullptr, forward_softmax, make_layer<SoftmaxLayer>},
      LayerModule{"sum", nullptr, forward_sum, make_layer<SumLayer>},
      LayerModule{"product", nullptr, forward_product, make_layer<ProductLayer>},
      LayerModule{"split", nullptr, forward_split, make_layer<SplitLayer>},
  };
  return kModules;
}

}  // namespace pdl
