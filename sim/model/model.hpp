// A model: a list of layers (sim/model/layer.hpp), and the loss that it is trained with.
//
//   Model m = mlp(8, 4096);          // 8 times Linear(4096, 4096) and ReLU
//   parameters(m)                    // 8 * (4096*4096 + 4096)
//
// Units: counts of numbers; bytes where the name says so. Not here: what a layer is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/layer.hpp"

namespace pdl {

class JsonPlace;

/// mse: of all numbers of the result, targets are as many. cross_entropy: of each token's logits, in fp32; targets are
/// tokens, whole numbers of 8 bytes.
enum class Loss : std::uint8_t { mse, cross_entropy };

/// As files have it.
std::string to_string(Loss loss);

struct Model {
  std::vector<Layer> layers;
  Loss loss = Loss::mse;
  bool operator==(const Model&) const = default;
};

/// Of a sample, where the model takes tokens; else 0.
std::int64_t sequence_tokens(const Model& model);

/// The last layer's weight is that of the first one, the embedding.
bool is_tied(const Model& model);

/// Rows of logits of a sample, over which cross_entropy is the mean, and how many logits each has; of mse one row of
/// all numbers.
struct LossRows {
  std::int64_t rows = 1;
  std::int64_t width = 0;
};
LossRows loss_rows(const Model& model);

/// Bytes of a sample's targets.
std::int64_t target_bytes(const Model& model);

/// Of a forward and a backward of a sample: matrix products and attention (of what is not masked) alone, what a
/// GPU's peak is of. A backward of attention counts as two forwards: that its kernels compute the softmax once more is
/// no work of the model (PaLM, arXiv:2204.02311, appendix B).
double model_flops(const Model& model);

/// One of the blocks that a transformer is made of, which have parts (InnerLayer::part).
bool is_block(const Layer& layer);

/// Where the blocks of a model stand, one after another. None: it has no blocks, or others stand between them.
struct BlockRange {
  std::int64_t first = 0, count = 0;
};
std::optional<BlockRange> blocks_of(const Model& model);

/// Numbers of a token between layers, where the model takes tokens; else numbers of a row that it takes.
std::int64_t width_of(const Model& model);

/// Are there layers of two parts, attention and MLP?
bool has_blocks(const Model& model);

/// "embedding", "block 3", "head"; of models without blocks "layer 3". From 0.
std::string layer_name(const Model& model, std::int64_t index);

/// `depth` equal blocks of width `dim`. depth >= 1, dim >= 1.
Model mlp(std::int64_t depth, std::int64_t dim);

/// So that bytes of parameters, gradients and optimizer state stay below 2^63.
inline constexpr double kMostParameters = 2.5e17;

/// Reads {"layers": [{"kind": "linear_relu", "in": 4096, "out": 4096}, ...], "loss": "mse"}: docs/formats-model.md.
/// Throws InputError naming the file and the place in it: as read_json_file, an unknown, missing or doubled key, as
/// read_model.
Model load_model(const std::string& path);
/// The same of a document that is at hand.
Model read_model_file(const JsonPlace& root);

/// Of an object with the layers of a model file, `layers`, and perhaps with `loss`; other keys are not looked at: a run
/// has them in it. {"times": 12, "layers": [...]} is a list twelve times, one behind the other. Without `loss` it is
/// cross_entropy where the model takes tokens, else mse. Throws InputError naming the place: no list, as read_layer, a
/// width that does not fit the layer before, a first layer without parameters (it would have nothing to train), no
/// layer or more than a million, more than kMostParameters; tokens without cross_entropy, or that without tokens, or
/// with an output that is no whole number of logits for each token; a tied head that is not last, or whose weight is
/// not of the embedding's size.
Model read_model(const JsonPlace& object);

/// Numbers of a row that the model takes, and gives.
std::int64_t input_numbers(const Model& model);
std::int64_t output_numbers(const Model& model);

std::int64_t parameters(const Model& model);

/// Parameters of layers [first, first + count), and in how many tensors.
std::int64_t parameters(const Model& model, std::int64_t first, std::int64_t count);
std::int64_t parameter_tensor_count(const Model& model, std::int64_t first, std::int64_t count);

/// Bytes of a number between two layers, as LibTorch's modules leave it: [l] of what layer l takes, the last one of
/// what the model gives. 4, or 2 behind a layer whose result is half under autocast; 8 of tokens.
std::vector<std::int64_t> activation_number_bytes(const Model& model, Dtype dtype);

/// Bytes of all activations that are kept for the backward of layers [first, first + count), of one micro-batch: each
/// tensor once, whoever keeps it. Copies of parameters are not counted.
///   autograd   what the layers' modules keep (AutogradTensors); `number_bytes` is activation_number_bytes()
///   pipeline   the input, the results of all layers and what they keep (PipelineTensors)
std::int64_t kept_by_autograd(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                              Dtype dtype, const std::vector<std::int64_t>& number_bytes);
std::int64_t kept_by_pipeline(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                              Dtype dtype, const std::vector<std::int64_t>& number_bytes);

}  // namespace pdl
