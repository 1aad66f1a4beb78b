// Which gradients travel together.
#include "sim/plan/gradient_buckets.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Bytes of the 62 parameter tensors of torchvision's ResNet-18 in registration order.
std::vector<std::int64_t> resnet18() {
  std::vector<std::int64_t> numbers = {64 * 3 * 49, 64, 64};
  const auto convolution = [&](std::int64_t out, std::int64_t in, std::int64_t size) {
    numbers.insert(numbers.end(), {out * in * size * size, out, out});
  };
  std::int64_t width = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    convolution(out, width, 3);
    convolution(out, out, 3);
    if (out != width) convolution(out, width, 1);
    convolution(out, out, 3);
    convolution(out, out, 3);
    width = out;
  }
  numbers.insert(numbers.end(), {1000 * 512, 1000});
  for (std::int64_t& n : numbers) n *= 4;
  return numbers;
}

std::vector<std::int64_t> sizes(const std::vector<std::int64_t>& bytes, std::int64_t limit) {
  std::vector<std::int64_t> sums;
  for (const TensorIndices& bucket : fill_buckets(bytes, kMiB, limit)) {
    sums.push_back(0);
    for (const std::size_t tensor : bucket) sums.back() += bytes[tensor];
  }
  return sums;
}

}  // namespace

TEST_CASE("buckets of ResNet-18 are those of DDP (pytorch #48880)") {
  const std::vector<std::int64_t> registered = resnet18();
  REQUIRE(registered.size() == 62);
  const std::vector<std::int64_t> reversed(registered.rbegin(), registered.rend());
  CHECK(sizes(reversed, 25 * kMiB) == std::vector<std::int64_t>{2052000, 28852224, 15853824});
  CHECK(sizes(reversed, 35 * kMiB) == std::vector<std::int64_t>{2052000, 38297600, 6408448});
}

TEST_CASE("buckets hold whole tensors, every tensor once, and all but the last are full") {
  for (const std::int64_t first : {std::int64_t{1}, kMiB}) {
    for (const std::int64_t limit : {std::int64_t{1}, kMiB, 25 * kMiB, 1000 * kMiB}) {
      const std::vector<std::int64_t> bytes = resnet18();
      const std::vector<TensorIndices> buckets = fill_buckets(bytes, first, limit);
      std::size_t next = 0;
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        std::int64_t sum = 0, without_last = 0;
        for (const std::size_t tensor : buckets[b]) {
          CHECK(tensor == next++);
          without_last = sum;
          sum += bytes[tensor];
        }
        const std::int64_t full = b == 0 ? first : limit;
        CHECK(without_last < full);
        if (b + 1 < buckets.size()) CHECK(sum >= full);
      }
      CHECK(next == bytes.size());
    }
  }
}

TEST_CASE("a model's buckets: the bias of a layer before its weight, last layer first") {
  // 4 layers of 1024 x 1024: 4 MiB and 4 KiB each. First bucket full at 1 MiB: one layer. Then 9 MiB: three.
  const std::vector<GradientBucket> buckets = gradient_buckets(mlp(4, 1024), kMiB, 9 * kMiB);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0] == GradientBucket{{7, 6}, 4 * kMiB + 4096, 3});
  CHECK(buckets[1] == GradientBucket{{5, 4, 3, 2, 1, 0}, 3 * (4 * kMiB + 4096), 0});
}

TEST_CASE("under autocast the weight of a layer comes before its bias, which then waits for the next weight") {
  // Each weight fills a bucket of 4 MiB by itself: bias 3 travels with weight 2, and bias 0 alone.
  const std::vector<GradientBucket> buckets =
      gradient_buckets(mlp(4, 1024), kMiB, 4 * kMiB, GradientOrder::weight_first);
  REQUIRE(buckets.size() == 5);
  CHECK(buckets[0] == GradientBucket{{6}, 4 * kMiB, 3});
  CHECK(buckets[1] == GradientBucket{{7, 4}, 4 * kMiB + 4096, 2});
  CHECK(buckets[4] == GradientBucket{{1}, 4096, 0});
}

TEST_CASE("chunks of DataParallel: registration order, 10 MiB") {
  // 8 MiB a layer's weight: weight 0 and bias 0 are not full, weight 1 fills.
  const std::vector<GradientBucket> chunks = parameter_chunks(mlp(3, 1448));
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[0].tensors == TensorIndices{0, 1, 2});
  CHECK(chunks[1].tensors == TensorIndices{3, 4, 5});
}

TEST_CASE("chunks of DataParallel's gradients: 10 MiB at most, or one tensor") {
  // 8 MiB a layer's weight: weight 1 does not fit beside weight 0.
  const std::vector<GradientBucket> chunks = reduce_chunks(mlp(3, 1448));
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[0] == GradientBucket{{0, 1}, 4 * (1448 * 1448 + 1448), 0});
  CHECK(chunks[1] == GradientBucket{{2, 3}, 4 * (1448 * 1448 + 1448), 1});
  CHECK(chunks[2].tensors == TensorIndices{4, 5});
  // 16 MiB a weight: each is alone, and so are the biases between them.
  const std::vector<GradientBucket> large = reduce_chunks(mlp(2, 2048));
  REQUIRE(large.size() == 4);
  CHECK(large[0] == GradientBucket{{0}, 16 * kMiB, 0});
  CHECK(large[1] == GradientBucket{{1}, 8192, 0});
  CHECK(large[2] == GradientBucket{{2}, 16 * kMiB, 1});
  CHECK(large[3] == GradientBucket{{3}, 8192, 1});
  CHECK(reduce_chunks(mlp(4, 8)).size() == 1);
}
