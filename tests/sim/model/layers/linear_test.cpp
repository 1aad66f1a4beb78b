// linear against numbers counted by hand, and against linear_relu: 3 rows, 5 numbers in, 7 out.
#include "sim/model/layer.hpp"
#include "sim/model/model.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("linear: parameters, FLOPs and bytes of its products", "[layer]") {
  const Layer layer = linear(5, 7);
  CHECK(parameters(layer) == 5 * 7 + 7);
  for (const LayerOperation operation : {LayerOperation::forward, LayerOperation::backward,
                                         LayerOperation::backward_input, LayerOperation::backward_weight}) {
    CHECK(flops(layer, {operation, 3}) == flops(linear_relu(5, 7), {operation, 3}));
    CHECK(bytes(layer, {operation, 3}) == bytes(linear_relu(5, 7), {operation, 3}));
  }
  // Nobody needs the gradient of the model's input: nothing is left, where linear_relu has its ReLU's backward.
  const LayerWork first{LayerOperation::backward_input, 3, Dtype::fp32, false};
  CHECK(flops(layer, first) == 0);
  CHECK(bytes(layer, first) == 0);
  CHECK(flops(linear_relu(5, 7), first) == 3 * 7);
}

TEST_CASE("linear keeps its input, not its result", "[layer]") {
  const AutogradTensors tensors = autograd_tensors(linear(5, 7), {3, Dtype::fp32, 4, true});
  CHECK(tensors.keeps_input);
  CHECK_FALSE(tensors.keeps_result);
  CHECK(tensors.temporary.empty());
  CHECK(tensors.between_numbers == 0);
  CHECK(tensors.summed_columns == 7);
  // Linear, GELU, Linear: the inputs of all three, each once; the last result is nobody's but the loss's.
  const Model model{{linear(5, 7), layer_of_width(*find_layer_kind("gelu"), 7), linear(7, 5)}};
  CHECK(kept_by_autograd(model, 0, 3, 3, Dtype::fp32, activation_number_bytes(model, Dtype::fp32)) ==
        4 * 3 * (5 + 7 + 7));
  // Under autocast copies in half precision are kept, and the result is half.
  const AutogradTensors half = autograd_tensors(linear(5, 7), {3, Dtype::amp_bf16, 4, true});
  CHECK_FALSE(half.keeps_input);
  CHECK(half.kept == std::vector<TensorSize>{{15, 2}});
  CHECK(half.result_number_bytes == 2);
}
