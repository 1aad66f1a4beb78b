// layer_norm against numbers counted by hand: 3 rows of 5 numbers.
#include "sim/model/layer.hpp"
#include "sim/model/model.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

Layer norm() {
  return layer_of_width(*find_layer_kind("layer_norm"), 5);
}

using Sizes = std::vector<TensorSize>;

}  // namespace

TEST_CASE("layer_norm: weight and bias, FLOPs and bytes", "[layer]") {
  const std::vector<ParameterTensor> tensors = parameter_tensors(norm());
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].shape == std::vector<std::int64_t>{5});
  CHECK(parameters(norm()) == 10);
  CHECK(matrix_parameters(norm()) == 0);
  CHECK(flops(norm(), {LayerOperation::forward, 3}) == 6 * 15);
  CHECK(flops(norm(), {LayerOperation::backward, 3}) == (9 + 5) * 15);
  CHECK(flops(norm(), {LayerOperation::backward, 3, Dtype::fp32, false}) == 5 * 15);
  CHECK(flops(norm(), {LayerOperation::backward_weight, 3}) == 5 * 15);
  CHECK(bytes(norm(), {LayerOperation::forward, 3}) == 8 * 15);
  CHECK(bytes(norm(), {LayerOperation::backward, 3}) == 12 * 15);
  CHECK(bytes(norm(), {LayerOperation::backward_weight, 3}) == 8 * 15);
  CHECK(bytes(norm(), {LayerOperation::forward, 3, Dtype::amp_fp16}) == (2 + 4 + 8) * 15);
}

TEST_CASE("layer_norm keeps its input in fp32, and two numbers a row", "[layer]") {
  const AutogradTensors fp32 = autograd_tensors(norm(), {3, Dtype::fp32, 4, true});
  CHECK(fp32.keeps_input);
  CHECK_FALSE(fp32.keeps_result);
  CHECK(fp32.kept == Sizes{{3, 4}, {3, 4}});
  const AutogradTensors half = autograd_tensors(norm(), {3, Dtype::amp_bf16, 2, true});
  CHECK(half.result_number_bytes == 4);
  CHECK_FALSE(half.keeps_input);
  CHECK(half.kept == Sizes{{15, 4}, {3, 4}, {3, 4}});
  CHECK(pipeline_tensors(norm(), {3}).kept == std::vector<TensorSize>{{3}, {3}});
  CHECK(pipeline_tensors(norm(), {3, Dtype::amp_bf16, 2}).kept == std::vector<TensorSize>{{3}, {3}, {15}});
}

TEST_CASE("Linear, LayerNorm, Linear: which activations are kept", "[layer]") {
  const Model model{{linear_relu(5, 5), norm(), linear_relu(5, 5)}};
  const auto kept = [&](Dtype dtype) {
    return kept_by_autograd(model, 0, 3, 3, dtype, activation_number_bytes(model, dtype));
  };
  // The input, the first result (which LayerNorm reads too), its statistics, its result (which Linear reads), the last.
  CHECK(kept(Dtype::fp32) == 4 * (15 + 15 + 6 + 15 + 15));
  CHECK(activation_number_bytes(model, Dtype::amp_fp16) == std::vector<std::int64_t>{4, 2, 4, 2});
  // Halves: the input's cast, the first result, the cast that the second Linear reads, the last result. LayerNorm has a
  // cast of the first result in fp32; nobody keeps its own.
  CHECK(kept(Dtype::amp_fp16) == 2 * (15 + 15 + 15 + 15) + 4 * (15 + 6));
  const auto by_pipeline = [&](Dtype dtype) {
    return kept_by_pipeline(model, 0, 3, 3, dtype, activation_number_bytes(model, dtype));
  };
  CHECK(by_pipeline(Dtype::fp32) == 4 * (15 + 15 + 15 + 6 + 15));
  // The input and its cast, a result, the norm's cast, result and statistics; the cast of that, and the last result.
  CHECK(by_pipeline(Dtype::amp_bf16) == 4 * 15 + 2 * 15 + 2 * 15 + 4 * (15 + 15 + 6) + 2 * 15 + 2 * 15);
}
