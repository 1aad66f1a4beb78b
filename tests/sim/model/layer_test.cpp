// What a layer answers: linear_relu against numbers counted by hand, and what holds for every kind in the table.
#include "sim/model/layer.hpp"

#include <nlohmann/json.hpp>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/model/model.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("linear_relu: parameters, sizes, FLOPs and bytes of 3 rows of Linear(5, 7) and ReLU", "[layer]") {
  const Layer layer = linear_relu(5, 7);
  const std::vector<ParameterTensor> tensors = parameter_tensors(layer);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].shape == std::vector<std::int64_t>{7, 5});
  CHECK(tensors[1].shape == std::vector<std::int64_t>{7});
  CHECK(parameters(layer) == 42);
  CHECK(matrix_parameters(layer) == 35);
  CHECK(input_numbers(layer) == 5);
  CHECK(output_numbers(layer) == 7);
  const auto work = [](LayerOperation operation, bool input_gradient, Dtype dtype) {
    return LayerWork{operation, 3, dtype, input_gradient};
  };
  CHECK(flops(layer, work(LayerOperation::forward, true, Dtype::fp32)) == 2 * 3 * 35);
  CHECK(flops(layer, work(LayerOperation::backward, true, Dtype::fp32)) == 4 * 3 * 35);
  CHECK(flops(layer, work(LayerOperation::backward, false, Dtype::fp32)) == 2 * 3 * 35);
  CHECK(flops(layer, work(LayerOperation::backward_input, false, Dtype::fp32)) == 3 * 7);  // of the ReLU alone
  CHECK(bytes(layer, work(LayerOperation::forward, true, Dtype::tf32)) == 4 * (35 + 3 * 12));
  CHECK(bytes(layer, work(LayerOperation::backward, true, Dtype::amp_fp16)) == 2 * (2 * 35 + 3 * 12));
  CHECK(bytes(layer, work(LayerOperation::backward_input, false, Dtype::fp32)) == 3 * 4 * 3 * 7);
}

TEST_CASE("linear_relu: what autograd keeps", "[layer]") {
  const Layer layer = linear_relu(5, 7);
  const AutogradTensors fp32 = autograd_tensors(layer, {3, Dtype::fp32, 4, true});
  CHECK(fp32.keeps_input);
  CHECK(fp32.keeps_result);
  CHECK(fp32.kept.empty());
  CHECK(fp32.kept_parameters.empty());
  CHECK(fp32.cached.empty());
  // Autocast: weight and bias as halves; the input of the model, which is fp32, too.
  using Sizes = std::vector<TensorSize>;
  const AutogradTensors half = autograd_tensors(layer, {3, Dtype::amp_bf16, 2, true});
  CHECK(half.result_number_bytes == 2);
  CHECK(half.keeps_input);
  CHECK(half.kept.empty());
  CHECK(half.kept_parameters == Sizes{{35, 2}});
  CHECK(half.cached == Sizes{{7, 2}});
  const AutogradTensors first = autograd_tensors(layer, {3, Dtype::amp_bf16, 4, false});
  CHECK_FALSE(first.keeps_input);
  CHECK(first.kept == Sizes{{15, 2}});
  CHECK(first.cached == Sizes{{35, 2}, {7, 2}});
}

TEST_CASE("activations that are kept: each tensor once, halves under autocast", "[layer]") {
  const Model model = mlp(4, 10);
  const auto by_autograd = [&](std::int64_t first, std::int64_t count, Dtype dtype) {
    return kept_by_autograd(model, first, count, 3, dtype, activation_number_bytes(model, dtype));
  };
  CHECK(activation_number_bytes(model, Dtype::fp32) == std::vector<std::int64_t>{4, 4, 4, 4, 4});
  CHECK(activation_number_bytes(model, Dtype::amp_fp16) == std::vector<std::int64_t>{4, 2, 2, 2, 2});
  CHECK(by_autograd(0, 4, Dtype::fp32) == 5 * 30 * 4);      // the input and four results
  CHECK(by_autograd(0, 4, Dtype::amp_fp16) == 5 * 30 * 2);  // the input's cast and four results
  CHECK(by_autograd(2, 2, Dtype::amp_fp16) == 3 * 30 * 2);  // what came from the stage before is half
  const auto by_pipeline = [&](Dtype dtype) {
    return kept_by_pipeline(model, 1, 2, 3, dtype, activation_number_bytes(model, dtype));
  };
  CHECK(by_pipeline(Dtype::fp32) == 3 * 30 * 4);
  CHECK(by_pipeline(Dtype::amp_bf16) == 3 * 30 * 2);
}

TEST_CASE("every kind of layer survives a file, and its answers agree with each other", "[layer]") {
  for (const LayerKind* kind : layer_kinds()) {
    INFO(kind->name);
    const Layer layer = layer_of_width(*kind, 24);
    const nlohmann::json json = nlohmann::json::parse(to_json(layer).dump());
    CHECK(read_layer(JsonPlace(json, "layer")) == layer);
    CHECK(find_layer_kind(kind->name) == kind);
    CHECK(kind->stands_alone);
    if (!kind->of_width) {
      CHECK(input_numbers(layer) == 24);
      CHECK(output_numbers(layer) == 24);
    }
    CHECK(input_numbers(layer) > 0);
    CHECK(output_numbers(layer) > 0);
    if (kind->refusal) CHECK_FALSE(kind->refusal(layer));
    CHECK(has_parameters(layer) == (parameters(layer) > 0));
    CHECK(flops(layer, {LayerOperation::forward, 2}) == 2 * flops(layer, {LayerOperation::forward, 1}));
    // Somebody has what the backward reads; without autocast nothing is half.
    const AutogradTensors tensors = autograd_tensors(layer, {3, Dtype::fp32, 4, true});
    CHECK((tensors.keeps_input || tensors.keeps_result || !tensors.kept.empty()));
    CHECK(tensors.result_number_bytes == 4);
    CHECK(tensors.gradient_number_bytes == 4);
  }
}

TEST_CASE("what is inside of other layers only is no layer of a file", "[layer]") {
  for (const LayerKind* kind : inner_kinds()) {
    INFO(kind->name);
    CHECK(find_layer_kind(kind->name) == kind);
    CHECK_FALSE(kind->stands_alone);
    const nlohmann::json json = nlohmann::json::parse(to_json(layer_of_width(*kind, 24)).dump());
    CHECK_THROWS_WITH(read_layer(JsonPlace(json, "layer")),
                      "layer: kind: found \"" + std::string(kind->name) +
                          "\", expected a kind that stands alone: this one is inside of others only");
  }
}
