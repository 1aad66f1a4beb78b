#include <ATen/ATen.h>
#include <torch/types.h>

#include <array>

#include "runtime/model/initial_values.hpp"
#include "runtime/model/layer_module.hpp"

namespace pdl {
namespace {

/// Sizes of both kinds: rows of the table, numbers of a row, tokens of a sequence.
struct EmbeddingSizes {
  std::int64_t table, features, tokens;
  explicit EmbeddingSizes(const Layer& layer)
      : table(layer.sizes[0]), features(layer.sizes[1]), tokens(layer.sizes[2]) {}
};

void draw_embedding(Tensors parameters, std::int64_t index, std::uint64_t seed) {
  initialise_embedding(parameters[0], index, seed);
}

// ---- embedding

LayerValue forward_embedding(const ModuleForward& at) {
  return {torch::embedding(at.parameters[0], at.x()).view({at.x().size(0), -1})};
}

/// y = rows of W;  dW: LibTorch's dense gradient, a new tensor. A tied weight has the head's gradient already: the
/// backward of the head comes before.
class EmbeddingLayer : public PipelineLayer {
 public:
  explicit EmbeddingLayer(const PipelineLayerParts& parts)
      : sizes_(parts.layer),
        tied_(parts.embedding_is_tied),
        weight_(parts.parameters[0]),
        weight_gradient_(parts.gradients[0]) {}

  void forward(const LayerForward& at) override {
    at::Tensor result = at.result.view({-1, sizes_.features});
    at::index_select_out(result, weight_, 0, at.input.reshape({-1}));
  }

  void input_gradient(const LayerBackward&, at::Tensor&) override { TORCH_CHECK(false, "tokens have no gradient"); }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    const at::Tensor gradient = at::embedding_dense_backward(at.gradient.view({-1, sizes_.features}),
                                                             at.input.reshape({-1}), sizes_.table, -1, false);
    accumulate || tied_ ? weight_gradient_.add_(gradient) : weight_gradient_.copy_(gradient);
  }

 private:
  EmbeddingSizes sizes_;
  bool tied_;
  at::Tensor weight_, weight_gradient_;
};

// ---- position_embedding

LayerValue forward_position_embedding(const ModuleForward& at) {
  const EmbeddingSizes sizes(at.layer);
  const at::Tensor positions = at::arange(sizes.tokens, at::TensorOptions().dtype(at::kLong).device(at.x().device()));
  const at::Tensor sequences = at.x().view({-1, sizes.tokens, sizes.features});
  return {(sequences + torch::embedding(at.parameters[0], positions)).view({at.x().size(0), -1})};
}

/// The first rows of W are added to each sequence; their gradient is the sum over the sequences, that of the others 0.
class PositionEmbeddingLayer : public PipelineLayer {
 public:
  explicit PositionEmbeddingLayer(const PipelineLayerParts& parts)
      : sizes_(parts.layer),
        weight_(parts.parameters[0].narrow(0, 0, sizes_.tokens)),
        weight_gradient_(parts.gradients[0]) {}

  void forward(const LayerForward& at) override {
    at::Tensor result = sequences(at.result);
    add_types(result, sequences(at.input), weight_);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override { gradient.copy_(at.gradient); }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    if (!accumulate) weight_gradient_.zero_();
    weight_gradient_.narrow(0, 0, sizes_.tokens).add_(sequences(at.gradient).sum(0));
  }

 private:
  at::Tensor sequences(const at::Tensor& tensor) const { return tensor.view({-1, sizes_.tokens, sizes_.features}); }

  EmbeddingSizes sizes_;
  at::Tensor weight_, weight_gradient_;
};

}  // namespace

std::span<const LayerModule> embedding_modules() {
  static constexpr std::array kModules = {
      LayerModule{"embedding", draw_embedding, forward_embedding, make_layer<EmbeddingLayer>},
      LayerModule{"position_embedding", draw_embedding, forward_position_embedding, make_layer<PositionEmbeddingLayer>},
  };
  return kModules;
}

}  // namespace pdl
