// What attention keeps and takes for a moment, by data type and by heads.
#include "sim/model/layer.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kRows = 3, kHeads = 4, kHeadSize = 40, kTokens = 100;
constexpr std::int64_t kQueries = kRows * kTokens * kHeads * kHeadSize;
constexpr std::int64_t kScores = kRows * kHeads * kTokens * kTokens;

AutogradTensors tensors_of(std::int64_t kv_heads, Dtype dtype) {
  const Layer layer{find_layer_kind("scaled_dot_product"), {kHeads, kv_heads, kHeadSize, kTokens}};
  return autograd_tensors(layer, {kRows, dtype, is_amp(dtype) ? 2 : 4, /*input_gradient=*/true});
}

}  // namespace

TEST_CASE("plain products of grouped queries keep no inputs, but queries, keys and values by head, and the softmax") {
  const AutogradTensors tensors = tensors_of(1, Dtype::tf32);
  CHECK_FALSE(tensors.keeps_input);
  CHECK_FALSE(tensors.keeps_result);
  CHECK(tensors.kept == std::vector<TensorSize>{{kQueries, 4}, {kQueries, 4}, {kQueries, 4}, {kScores, 4}});
  // The softmax's gradient and that of the scores; what is made, queries and two of a fourth, comes when they are gone.
  const std::int64_t made = kQueries + kQueries / 2;
  CHECK(tensors.backward_temporary == std::vector<TensorSize>{{2 * kScores - kQueries - made, 4}});
}

TEST_CASE(
    "fused attention keeps inputs, its result and a number a row, and flash takes the queries in fp32 for a moment") {
  for (const std::int64_t kv_heads : {1, 4}) {
    const AutogradTensors flash = tensors_of(kv_heads, Dtype::amp_bf16);
    CHECK(flash.keeps_input);
    CHECK(flash.keeps_result);
    CHECK(flash.kept == std::vector<TensorSize>{{kRows * kHeads * kTokens, 4}});
    std::vector<TensorSize> moment = {{kRows * kHeads * 128 * 64, 4}, {kRows * kHeads * 128, 4}};
    if (kv_heads == 1) moment.insert(moment.end(), {{kQueries, 2}, {kQueries, 2}});  // keys and values for each head
    CHECK(flash.backward_temporary == moment);
  }
  CHECK(tensors_of(4, Dtype::fp32).backward_temporary == std::vector<TensorSize>{{kRows * kHeads * kTokens, 4}});
}
