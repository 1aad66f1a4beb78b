// What the backward of an embedding takes on a GPU beside the dense gradient.
#include "sim/model/layer.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("more than 3,072 tokens are sorted: a sum for each ten of them and for each that there may be") {
  const auto temporary = [](std::int64_t vocabulary, std::int64_t rows) {
    const Layer layer{find_layer_kind("embedding"), {vocabulary, 40, 1024}};
    return autograd_tensors(layer, {rows, Dtype::fp32, 8, /*input_gradient=*/false}).backward_temporary;
  };
  CHECK(temporary(50257, 3).empty());
  CHECK(temporary(50257, 4) == std::vector<TensorSize>{{(409 + 4096) * 64, 4}});  // rows of a multiple of 32 numbers
  CHECK(temporary(1000, 4) == std::vector<TensorSize>{{(409 + 1000) * 64, 4}});
  const Layer layer{find_layer_kind("embedding"), {1000, 40, 1024}};
  CHECK(pipeline_tensors(layer, {4}).temporary_backward ==
        std::vector<TensorSize>{{(409 + 1000) * 64, 4}, {1000 * 40, 4}});
}
