#include <ATen/ATen.h>
#include <torch/types.h>

#include <array>
#include <limits>

#include "runtime/model/layer_module.hpp"

namespace pdl {
namespace {

// ---- layer_norm

constexpr double kLayerNormEpsilon = 1e-5;  // PyTorch's default

void draw_layer_norm(Tensors parameters, std::int64_t, std::uint64_t) {
  at::Tensor(parameters[0]).fill_(1);
  at::Tensor(parameters[1]).zero_();
}

/// In fp32 under autocast too, as autocast of GPUs has it (AT_FORALL_FP32); that of the CPU leaves the type as it is.
LayerValue forward_layer_norm(const ModuleForward& at) {
  return {torch::layer_norm(at.x().to(at::kFloat), at.parameters[0].sizes(), at.parameters[0], at.parameters[1],
                            kLayerNormEpsilon)};
}

/// As LibTorch's kernels take them: rows x 1.
at::Tensor of_rows(const at::Tensor& statistics) {
  return statistics.view({-1, 1});
}

/// What a norm computes with, in fp32: its input, or under autocast the cast of an input in half precision, which is
/// kept.
class NormInput {
 public:
  NormInput(const PipelineLayerParts& parts, std::size_t kept)
      : is_cast_(parts.input_number_bytes < kBytesPerNumber), kept_(kept) {}

  bool is_cast() const { return is_cast_; }
  at::Tensor of(const at::Tensor& input, Tensors kept) const { return is_cast_ ? kept[kept_].view_as(input) : input; }
  at::Tensor cast(const LayerForward& at) const {
    const at::Tensor input = of(at.input, at.kept);
    if (is_cast_) input.copy_(at.input);
    return input;
  }

 private:
  bool is_cast_;
  std::size_t kept_;  // which one of the kept tensors
};

/// By LibTorch's own kernels, which make new tensors: copied into the buffers.
class LayerNormLayer : public PipelineLayer {
 public:
  explicit LayerNormLayer(const PipelineLayerParts& parts)
      : input_(parts, 2),
        weight_(parts.parameters[0]),
        bias_(parts.parameters[1]),
        weight_gradient_(parts.gradients[0]),
        bias_gradient_(parts.gradients[1]) {}

  void forward(const LayerForward& at) override {
    const auto [result, mean, inverse_deviation] =
        at::native_layer_norm(input_.cast(at), weight_.sizes(), weight_, bias_, kLayerNormEpsilon);
    at.result.copy_(result);
    of_rows(at.kept[0]).copy_(mean);
    of_rows(at.kept[1]).copy_(inverse_deviation);
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
    return at::native_layer_norm_backward(at.gradient, input_.of(at.input, at.kept), weight_.sizes(),
                                          of_rows(at.kept[0]), of_rows(at.kept[1]), weight_, bias_, wanted);
  }

  NormInput input_;
  at::Tensor weight_, bias_, weight_gradient_, bias_gradient_;
};

// ---- rms_norm

constexpr double kRmsNormEpsilon = std::numeric_limits<float>::epsilon();  // PyTorch's default

void draw_rms_norm(Tensors parameters, std::int64_t, std::uint64_t) {
  at::Tensor(parameters[0]).fill_(1);
}

/// In fp32 under autocast: then the fused kernel serves.
LayerValue forward_rms_norm(const ModuleForward& at) {
  return {torch::rms_norm(at.x().to(at::kFloat), at.parameters[0].sizes(), at.parameters[0])};
}

/// r = 1 / sqrt(mean(x^2) + epsilon) of each row is kept;  y = x r w
///
///   dx = r (dy w - x r^2 mean(dy w x));  dw = the sum of dy x r over the rows
///
/// On CUDA by LibTorch's fused kernels; the CPU has none.
class RmsNormLayer : public PipelineLayer {
 public:
  explicit RmsNormLayer(const PipelineLayerParts& parts)
      : input_(parts, 1), weight_(parts.parameters[0]), weight_gradient_(parts.gradients[0]) {}

  void forward(const LayerForward& at) override {
    const at::Tensor input = input_.cast(at);
    at::Tensor inverse_roots = of_rows(at.kept[0]);
    if (input.is_cuda()) {
      const auto [result, roots] = at::_fused_rms_norm(input, weight_.sizes(), weight_, kRmsNormEpsilon);
      at.result.copy_(result);
      inverse_roots.copy_(roots);
      return;
    }
    inverse_roots.copy_(input.square().mean(-1, /*keepdim=*/true).add_(kRmsNormEpsilon).rsqrt_());
    at::mul_out(at.result, input, inverse_roots).mul_(weight_);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    const at::Tensor inverse_roots = of_rows(at.kept[0]);
    if (at.input.is_cuda()) {
      gradient.copy_(std::get<0>(fused_gradients(at, inverse_roots, {true, false})));
      return;
    }
    const at::Tensor input = input_.of(at.input, at.kept);
    at::Tensor in_fp32 = input_.is_cast() ? at::empty_like(input) : gradient;
    at::mul_out(in_fp32, at.gradient, weight_);
    const at::Tensor mean = (in_fp32 * input).mean(-1, /*keepdim=*/true).mul_(inverse_roots.square());
    in_fp32.addcmul_(input, mean, -1).mul_(inverse_roots);
    if (input_.is_cast()) gradient.copy_(in_fp32);
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    const at::Tensor inverse_roots = of_rows(at.kept[0]);
    const at::Tensor of_weight = at.input.is_cuda()
                                     ? std::get<1>(fused_gradients(at, inverse_roots, {false, true}))
                                     : (input_.of(at.input, at.kept) * inverse_roots).mul_(at.gradient).sum(0);
    accumulate ? weight_gradient_.add_(of_weight) : weight_gradient_.copy_(of_weight);
  }

 private:
  std::tuple<at::Tensor, at::Tensor> fused_gradients(const LayerBackward& at, const at::Tensor& inverse_roots,
                                                     std::array<bool, 2> wanted) const {
    return at::_fused_rms_norm_backward(at.gradient, input_.of(at.input, at.kept), weight_.sizes(), inverse_roots,
                                        weight_, wanted);
  }

  NormInput input_;
  at::Tensor weight_, weight_gradient_;
};

}  // namespace

std::span<const LayerModule> norm_modules() {
  static constexpr std::array kModules = {
      LayerModule{"layer_norm", draw_layer_norm, forward_layer_norm, make_layer<LayerNormLayer>},
      LayerModule{"rms_norm", draw_rms_norm, forward_rms_norm, make_layer<RmsNormLayer>},
  };
  return kModules;
}

}  // namespace pdl
