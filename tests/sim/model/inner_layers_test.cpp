// What is inside of a block, drawn as text, and what follows for the whole, counted by hand.
#include "sim/model/inner_layers.hpp"

#include "sim/model/model.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

Layer layer_of(const char* kind, std::initializer_list<std::int64_t> sizes) {
  Layer layer{find_layer_kind(kind), {}};
  std::copy(sizes.begin(), sizes.end(), layer.sizes.begin());
  return layer;
}

/// 16 features, 2 heads of 8 numbers, 32 numbers inside of the MLP, 3 tokens.
Layer gpt_block(std::int64_t dropout_percent = 0) {
  return layer_of("gpt_block", {16, 2, 32, 3, dropout_percent, 1});
}

/// 16 features, 2 heads of queries for one of keys and values, 24 numbers inside of the MLP, 3 tokens.
Layer llama_block() {
  return layer_of("llama_block", {16, 2, 1, 24, 3});
}

/// Those that are priced: sizes, rows of a sample, bytes of a number that goes in; a part begins with its name.
std::string drawn(const Layer& layer, Dtype dtype, std::int64_t input_number_bytes) {
  std::string text;
  std::string_view part;
  for (const Leaf& leaf : leaves_of(layer, 1, dtype, input_number_bytes)) {
    if (leaf.part != part) text += "\n" + std::string(leaf.part) + ":";
    part = leaf.part;
    text += "\n  " + to_text(leaf.layer) + ", " + std::to_string(leaf.rows) + (leaf.rows == 1 ? " row, " : " rows, ") +
            std::to_string(leaf.number_bytes) + " bytes";
  }
  return text;
}

LayerWork work(LayerOperation operation) {
  return {operation, 1};
}

}  // namespace

TEST_CASE("a block of GPT-2 is made of two halves, each with its norm and its sum", "[inner_layers]") {
  CHECK(drawn(gpt_block(), Dtype::fp32, 4) == R"(
attention:
  gradient_sum 48, 1 row, 4 bytes
  layer_norm 16, 3 rows, 4 bytes
  linear 16 x 48, 3 rows, 4 bytes
  split 48, 3 rows, 4 bytes
  scaled_dot_product 2 x 2 x 8 x 3, 1 row, 4 bytes
  linear 16 x 16, 3 rows, 4 bytes
  sum 16, 3 rows, 4 bytes
  gradient_sum 16, 3 rows, 4 bytes
mlp:
  layer_norm 16, 3 rows, 4 bytes
  linear 16 x 32, 3 rows, 4 bytes
  gelu_tanh 32, 3 rows, 4 bytes
  linear 32 x 16, 3 rows, 4 bytes
  sum 16, 3 rows, 4 bytes)");
}

TEST_CASE("under autocast products cast what comes in fp32, and sums stay in fp32 behind it", "[inner_layers]") {
  CHECK(drawn(gpt_block(10), Dtype::amp_bf16, 4) == R"(
attention:
  gradient_sum 48, 1 row, 4 bytes
  layer_norm 16, 3 rows, 4 bytes
  cast 16, 3 rows, 4 bytes
  linear 16 x 48, 3 rows, 2 bytes
  split 48, 3 rows, 2 bytes
  scaled_dot_product 2 x 2 x 8 x 3, 1 row, 2 bytes
  linear 16 x 16, 3 rows, 2 bytes
  dropout 16 x 10, 3 rows, 2 bytes
  sum 16, 3 rows, 2 bytes
  gradient_sum 16, 3 rows, 4 bytes
mlp:
  layer_norm 16, 3 rows, 4 bytes
  cast 16, 3 rows, 4 bytes
  linear 16 x 32, 3 rows, 2 bytes
  gelu_tanh 32, 3 rows, 2 bytes
  linear 32 x 16, 3 rows, 2 bytes
  dropout 16 x 10, 3 rows, 2 bytes
  sum 16, 3 rows, 2 bytes)");
}

TEST_CASE("a block of Llama: what three products take, their gradients are added twice", "[inner_layers]") {
  CHECK(drawn(llama_block(), Dtype::fp32, 4) == R"(
attention:
  gradient_sum 48, 1 row, 4 bytes
  rms_norm 16, 3 rows, 4 bytes
  gradient_sum 16, 3 rows, 4 bytes
  gradient_sum 16, 3 rows, 4 bytes
  linear_no_bias 16 x 16, 3 rows, 4 bytes
  linear_no_bias 16 x 8, 3 rows, 4 bytes
  linear_no_bias 16 x 8, 3 rows, 4 bytes
  rotary 2 x 1 x 8 x 3, 1 row, 4 bytes
  scaled_dot_product 2 x 1 x 8 x 3, 1 row, 4 bytes
  linear_no_bias 16 x 16, 3 rows, 4 bytes
  sum 16, 3 rows, 4 bytes
  gradient_sum 16, 3 rows, 4 bytes
mlp:
  rms_norm 16, 3 rows, 4 bytes
  gradient_sum 16, 3 rows, 4 bytes
  linear_no_bias 16 x 24, 3 rows, 4 bytes
  silu 24, 3 rows, 4 bytes
  linear_no_bias 16 x 24, 3 rows, 4 bytes
  product 24, 3 rows, 4 bytes
  linear_no_bias 24 x 16, 3 rows, 4 bytes
  sum 16, 3 rows, 4 bytes)");
}

TEST_CASE("parameters of blocks and heads, those of a tied head being the embedding's", "[inner_layers]") {
  // Norm 2 x 16, q k v 16 x 48 + 48, projection 16 x 16 + 16, norm, 16 x 32 + 32, 32 x 16 + 16.
  CHECK(parameters(gpt_block()) == 32 + 816 + 272 + 32 + 544 + 528);
  CHECK(parameter_tensors(gpt_block()).size() == 12);
  CHECK(matrix_parameters(gpt_block()) == 768 + 256 + 512 + 512);
  CHECK(parameters(llama_block()) == 16 + 256 + 128 + 128 + 256 + 16 + 3 * 384);
  CHECK(parameter_tensors(llama_block()).size() == 9);
  CHECK(parameters(layer_of("gpt_embedding", {40, 8, 16, 3, 0})) == 40 * 16 + 8 * 16);
  CHECK(parameters(layer_of("gpt_head", {16, 40, 3, 0})) == 2 * 16 + 16 * 40);
  CHECK(parameters(layer_of("gpt_head", {16, 40, 3, 1})) == 2 * 16);
  CHECK(parameters(layer_of("llama_head", {16, 40, 3, 0})) == 16 + 16 * 40);
}

TEST_CASE("products and attention of a model: twice its matrices for each token, and half of the attention's square",
          "[inner_layers]") {
  // Attention of what is not masked, forward two products: 2 x 3 tokens x 3 tokens x 16; backward twice as
  // much, as what its kernels compute again is not the model's.
  const double attention = 3 * 3 * 16, gpt_matrices = 2048, llama_matrices = 768 + 3 * 384;
  const Model gpt{{linear(48, 48), gpt_block()}, Loss::mse}, llama{{linear(48, 48), llama_block()}, Loss::mse};
  const double of_linear = 2 * 2 * 48 * 48;  // without a gradient of its input
  CHECK(model_flops(gpt) == of_linear + 3 * 2 * gpt_matrices * 3 + 6 * attention);
  CHECK(model_flops(llama) == of_linear + 3 * 2 * llama_matrices * 3 + 6 * attention);
  double forward = 0;
  for (const InnerLayer& inner : inner_layers(gpt_block())) {
    LayerWork own = work(LayerOperation::forward);
    own.rows = inner.rows;
    if (inner.layer.kind->scaling != LayerScaling::row_wise) forward += flops(inner.layer, own);
  }
  CHECK(forward == 2 * gpt_matrices * 3 + 2 * attention);
  CHECK(flops(gpt_block(), work(LayerOperation::forward)) > forward);  // norms, GELU, sums
}

TEST_CASE("what autograd keeps of a block, of two sequences in fp32: each tensor once", "[inner_layers]") {
  using Sizes = std::vector<TensorSize>;
  const AutogradTensors tensors = autograd_tensors(gpt_block(), {2, Dtype::fp32, 4, true});
  CHECK(tensors.keeps_input);         // of the first norm
  CHECK_FALSE(tensors.keeps_result);  // a sum keeps nothing
  CHECK(tensors.result_number_bytes == 4);
  CHECK(tensors.kept_parameters.empty());
  CHECK(tensors.cached.empty());
  const std::int64_t tokens = 2 * 3;
  CHECK(tensors.kept == Sizes{{tokens, 4},      // mean of the first norm
                              {tokens, 4},      // 1 / deviation
                              {2 * tokens, 4},  // of each row of the softmax
                              {tokens, 4},      // the second norm's
                              {tokens, 4},
                              {tokens * 16, 4},    // the norm's result, which the product keeps
                              {tokens * 48, 4},    // queries, keys and values
                              {tokens * 16, 4},    // what the attention gives
                              {tokens * 16, 4},    // the sum, which the second norm keeps
                              {tokens * 16, 4},    // the second norm's result
                              {tokens * 32, 4},    // what goes into GELU
                              {tokens * 32, 4}});  // and out of it
}

TEST_CASE("what autograd keeps of a block under autocast: halves, and casts of weights", "[inner_layers]") {
  using Sizes = std::vector<TensorSize>;
  const AutogradTensors tensors = autograd_tensors(gpt_block(), {1, Dtype::amp_bf16, 4, true});
  CHECK(tensors.kept_parameters == Sizes{{768, 2}, {256, 2}, {512, 2}, {512, 2}});
  CHECK(tensors.cached == Sizes{{48, 2}, {16, 2}, {32, 2}, {16, 2}});
  CHECK(tensors.result_number_bytes == 4);
  std::int64_t bytes = 0;
  for (const TensorSize& tensor : tensors.kept) bytes += tensor.bytes();
  // Statistics in fp32; the casts of what the norms give, q k v, what the attention gives, GELU's two in half
  // precision; the sum between the halves in fp32.
  CHECK(bytes == 4 * 3 * 4 + 2 * 3 * 4 + 2 * 3 * (16 + 48 + 16 + 16 + 32 + 32) + 4 * 3 * 16);
}

TEST_CASE("a mask of dropout is a byte a number", "[inner_layers]") {
  const auto kept_bytes = [](const Layer& layer) {
    std::int64_t bytes = 0;
    for (const TensorSize& tensor : autograd_tensors(layer, {1, Dtype::fp32, 4, true}).kept) bytes += tensor.bytes();
    return bytes;
  };
  CHECK(kept_bytes(gpt_block(10)) == kept_bytes(gpt_block()) + 2 * 3 * 16);
}

TEST_CASE("layers of a model of blocks have names", "[inner_layers]") {
  const Model model{
      {layer_of("gpt_embedding", {40, 8, 16, 3, 0}), gpt_block(), gpt_block(), layer_of("gpt_head", {16, 40, 3, 1})},
      Loss::cross_entropy};
  std::string names;
  for (std::int64_t l = 0; l < 4; ++l) names += layer_name(model, l) + " ";
  CHECK(names == "embedding block 0 block 1 head ");
  const BlockRange blocks = *blocks_of(model);
  CHECK(blocks.first == 1);
  CHECK(blocks.count == 2);
  CHECK(width_of(model) == 16);
  CHECK(loss_rows(model).rows == 3);
  CHECK(loss_rows(model).width == 40);
  CHECK(target_bytes(model) == 3 * 8);
  CHECK_FALSE(blocks_of(mlp(3, 8)));
  CHECK_FALSE(blocks_of(Model{{gpt_block(), linear(48, 48), gpt_block()}, Loss::mse}));
}
