// By how much kernels slow an all-reduce beside them, because both want the memory.
#include "sim/cost/memory_contention.hpp"

#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

using Points = ProfileBuilder::Points;

/// Copies move 1 byte a ns: 2 Mi numbers, 16 MiB read and written, in 16,777.216 us. An all-reduce of 16 MB takes 170
/// us.
struct Copies : ProfileBuilder {
  Copies() {
    MeasuredKey bucket;
    bucket.probe = Probe::bucket;
    bucket.operation = "copy_out";
    add(bucket, {{1024, 100}, {1 << 21, 16777.216}});
    for (const std::int64_t ranks : {2, 3}) {
      MeasuredKey collective;
      collective.probe = Probe::collective;
      collective.operation = "all_reduce";
      collective.transport = "nccl";
      collective.ranks = ranks;
      add(collective, {{1, 10}, {1'000'000, 20}, {16'000'000, 170}});
    }
  }

  void beside(const char* name, std::int64_t ranks, const Points& points,
              const char* operation = kAllReduceBesideCopies) {
    MeasuredKey key;
    key.probe = Probe::overlap;
    key.name = name;
    key.operation = operation;
    key.transport = "nccl";
    key.dtype = Dtype::fp32;
    key.ranks = ranks;
    key.layer = linear_relu(4096, 4096);
    key.rows = 1;
    add(key, points);
  }

  double of_copies() { return MemoryContention(done()).of_copies(); }
};

MeasuredKey backward(bool accumulate, Dtype dtype = Dtype::fp32) {
  MeasuredKey key = ProfileBuilder::layer_key("backward", 1000, 1000, 1);
  key.dtype = dtype;
  key.accumulate = accumulate;
  key.input_gradient = true;
  return key;
}

/// k = .5
MemoryContention half() {
  Copies copies;
  copies.beside("communication", 2, {{16'000'000, 255 + 20}});
  copies.beside("compute", 2, {{16'000'000, 30}});
  return MemoryContention(copies.done());
}

}  // namespace

TEST_CASE("beside copies: what the largest all-reduce takes more than alone, less its wait for the slowest copy",
          "[data_parallel]") {
  // On 2 GPUs a copy of 30 us is waited for 2/3: 275 - 20 = 1.5 x 170.
  CHECK(half().of_copies() == Approx(.5));
  // On 3 GPUs 3/4 of 40: 285 - 30 = 1.5 x 170. A smaller message says nothing.
  Copies three;
  three.beside("communication", 3, {{1'000'000, 1000}, {16'000'000, 285}});
  three.beside("compute", 3, {{1'000'000, 90}, {16'000'000, 40}});
  CHECK(three.of_copies() == Approx(.5));
  // Faster than alone: not slowed.
  Copies faster;
  faster.beside("communication", 2, {{16'000'000, 150}});
  faster.beside("compute", 2, {{16'000'000, 30}});
  CHECK(faster.of_copies() == 0);
}

TEST_CASE("beside copies: groups of GPUs are averaged, nothing without both probes, or of all-reduces beside layers",
          "[data_parallel]") {
  Copies copies;
  copies.beside("communication", 2, {{16'000'000, 255 + 20}});  // .5
  copies.beside("compute", 2, {{16'000'000, 30}});
  copies.beside("communication", 3, {{16'000'000, 340 + 30}});  // 1
  copies.beside("compute", 3, {{16'000'000, 40}});
  copies.beside("communication", 8, {{16'000'000, 999}});  // no all-reduce of 8 alone, and no copies
  CHECK(copies.of_copies() == Approx(.75));
  Copies alone;
  alone.beside("communication", 2, {{16'000'000, 999}});
  CHECK(alone.of_copies() == 0);
  Copies layers;
  layers.beside("communication", 2, {{16'000'000, 999}}, "all_reduce");
  layers.beside("compute", 2, {{16'000'000, 30}}, "all_reduce");
  CHECK(layers.of_copies() == 0);
  CHECK(MemoryContention(ProfileBuilder().done()).of_copies() == 0);
}

TEST_CASE("beside a backward: its share of what copies would move in its time", "[data_parallel]") {
  // 2 weights of 4,000,000 bytes and 8,000 of activations in 16.016 ms: half of 1 byte a ns. Any number of GPUs: all
  // alike.
  CHECK(half().of_layer(backward(false), 16'016'000, 2) == Approx(.25));
  CHECK(half().of_layer(backward(false), 16'016'000, 8) == Approx(.25));
  // Never more than copies.
  CHECK(half().of_layer(backward(false), 1'000, 2) == Approx(.5));
}

TEST_CASE(
    "beside a backward: sums and casts of gradients move at full speed, a fraction of the time, of each GPU by itself",
    "[data_parallel]") {
  // 12,000,000 bytes of 48 ms: a fourth. The rest: 8,008,000 bytes in 36 ms.
  const double share = 8.008 / 36, fraction = .25;
  CHECK(half().of_layer(backward(true), 48'000'000, 1) == Approx(.5 * (share + (1 - share) * fraction)));
  CHECK(half().of_layer(backward(true), 48'000'000, 2) == Approx(.5 * (share + (1 - share) * (1 - .75 * .75))));
  // Autocast: half the bytes of weights and activations, and 6 bytes a weight cast: 6,000,000 of 24 ms.
  const double of_half = 4.004 / 18;
  CHECK(half().of_layer(backward(false, Dtype::amp_bf16), 24'000'000, 1) ==
        Approx(.5 * (of_half + (1 - of_half) * .25)));
}
