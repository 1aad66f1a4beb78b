// gelu and silu against numbers counted by hand: 3 rows of 5 numbers.
#include "sim/io/error.hpp"
#include "sim/model/layer.hpp"
#include "sim/model/model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

Layer gelu() {
  return layer_of_width(*find_layer_kind("gelu"), 5);
}

}  // namespace

TEST_CASE("gelu: no parameters, FLOPs and bytes", "[layer]") {
  CHECK_FALSE(has_parameters(gelu()));
  CHECK(parameters(gelu()) == 0);
  CHECK(flops(gelu(), {LayerOperation::forward, 3}) == 5 * 15);
  CHECK(flops(gelu(), {LayerOperation::backward, 3}) == 9 * 15);
  CHECK(flops(gelu(), {LayerOperation::backward_input, 3}) == 9 * 15);
  CHECK(flops(gelu(), {LayerOperation::backward_weight, 3}) == 0);
  CHECK(bytes(gelu(), {LayerOperation::forward, 3}) == 2 * 4 * 15);
  CHECK(bytes(gelu(), {LayerOperation::backward, 3, Dtype::amp_fp16}) == 3 * 2 * 15);
}

TEST_CASE("silu: as gelu, with an exp in the place of an erf", "[layer]") {
  const Layer silu = layer_of_width(*find_layer_kind("silu"), 5);
  CHECK_FALSE(has_parameters(silu));
  CHECK(flops(silu, {LayerOperation::forward, 3}) == 4 * 15);
  CHECK(flops(silu, {LayerOperation::backward, 3}) == 8 * 15);
  CHECK(flops(silu, {LayerOperation::backward_weight, 3}) == 0);
  CHECK(bytes(silu, {LayerOperation::backward, 3}) == 3 * 4 * 15);
  CHECK(autograd_tensors(silu, {3, Dtype::fp32, 4, true}).keeps_input);
}

TEST_CASE("gelu keeps its input, and gives the type that comes", "[layer]") {
  for (const std::int64_t number_bytes : {2, 4}) {
    const AutogradTensors tensors = autograd_tensors(gelu(), {3, Dtype::amp_bf16, number_bytes, true});
    CHECK(tensors.keeps_input);
    CHECK_FALSE(tensors.keeps_result);
    CHECK(tensors.kept.empty());
    CHECK(tensors.result_number_bytes == number_bytes);
  }
  // Linear and ReLU, GELU: the input, and the result that both keep; the last one is nobody's but the loss's.
  const Model model{{linear_relu(5, 5), gelu()}};
  CHECK(kept_by_autograd(model, 0, 2, 3, Dtype::fp32, activation_number_bytes(model, Dtype::fp32)) == 4 * (15 + 15));
}

TEST_CASE("a model cannot begin with a layer without parameters", "[layer]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", R"({"layers": [{"kind": "gelu", "features": 8}]})");
  CHECK_THROWS_WITH(load_model(path), path +
                                          ": layers[0].kind: found \"gelu\", expected a layer with parameters: "
                                          "without them the first layer has nothing to train");
}
