// Peak memory of data-parallel programs.
#include <algorithm>

#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::vector<std::int64_t> bytes_of(const std::string& flags) {
  return predict_memory_bytes(make_plan(spec(flags)), {});
}

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("ddp: buckets take the bytes of the gradients once more, views of the buckets do not (pytorch PR #41954)") {
  const std::string flags = "--depth 4 --dim 2048 --batch 64 ";
  const std::int64_t gradients = 4 * (16 * kMiB + 8192);
  const std::int64_t alone = bytes_of(flags + "--strategy single --workers one --microbatches 1").front();
  const std::int64_t copied = bytes_of(flags + "--strategy ddp --gpus 1").front();
  const std::int64_t views = bytes_of(flags + "--strategy ddp --gpus 1 --bucket-views 1").front();
  // Blocks of the allocator are a little larger than what is asked for.
  CHECK(static_cast<double>(copied - alone) == Approx(static_cast<double>(gradients)).epsilon(.05));
  // What one layer's gradients take before they are in their bucket is not there at the peak of `alone`.
  CHECK(views - alone <= 17 * kMiB + 17 * kMiB / 2);
}

TEST_CASE("ddp: all GPUs need the same, dp: GPU 0 needs most, even with the smallest part") {
  const std::vector<std::int64_t> ddp = bytes_of("--strategy ddp --gpus 4 --depth 4 --dim 1024 --batch 64");
  CHECK(std::all_of(ddp.begin(), ddp.end(), [&](std::int64_t bytes) { return bytes == ddp.front(); }));
  for (const std::string gpus : {"4", "6"}) {
    const std::vector<std::int64_t> dp = bytes_of("--strategy dp --depth 4 --dim 1024 --batch 4096 --gpus " + gpus);
    CHECK(*std::max_element(dp.begin() + 1, dp.end()) < dp.front());
    CHECK(dp[1] == dp[2]);
  }
}

TEST_CASE("dp: the others' memory is linear in their slice") {
  const auto second = [](const char* batch) {
    return static_cast<double>(
        bytes_of(std::string("--strategy dp --gpus 4 --depth 4 --dim 1024 --batch ") + batch)[1]);
  };
  CHECK(second("16384") - second("8192") == Approx(2 * (second("8192") - second("4096"))).epsilon(.02));
}

TEST_CASE("memory does not grow with the rounds of accumulation") {
  for (const std::string strategy : {"ddp", "dp"}) {
    const std::string flags = "--depth 4 --dim 1024 --batch 64 --gpus 2 --strategy " + strategy + " --accum ";
    CHECK(bytes_of(flags + "4") == bytes_of(flags + "32"));
  }
}

TEST_CASE("1F1B keeps min(P, M) x B / M samples on GPU 0, whatever M (marin #6532)") {
  const std::int64_t of_a_sample = (8192 + 8192) * 4;  // input and output of a stage of one layer
  for (const auto& [m, samples] : {std::pair{"8", 256}, {"16", 128}, {"32", 64}}) {
    const Plan plan =
        make_plan(spec(std::string("--gpus 8 --depth 8 --schedule 1f1b --batch 256 --microbatches ") + m));
    CHECK(plan.live.front().bytes == samples * of_a_sample);
  }
}

TEST_CASE("ddp and dp keep the activations of one micro-batch at a time, of the largest") {
  // Input and the results of two layers: 3 x 64 numbers a sample.
  const auto samples = [](const std::string& flags) {
    std::vector<std::int64_t> each;
    for (const LiveActivations& live : make_plan(spec("--depth 2 --dim 64 " + flags)).live) {
      CHECK(live.count == (live.bytes > 0 ? 1 : 0));
      CHECK(live.bytes % (3 * 64 * 4) == 0);
      each.push_back(live.bytes / (3 * 64 * 4));
    }
    return each;
  };
  using Samples = std::vector<std::int64_t>;
  for (const std::string strategy : {"--strategy ddp ", "--strategy dp "}) {
    INFO(strategy);
    CHECK(samples(strategy + "--gpus 2 --batch 64") == Samples{32, 32});
    CHECK(samples(strategy + "--gpus 2 --batch 64 --microbatches 4") == Samples{8, 8});
    CHECK(samples(strategy + "--gpus 2 --batch 64 --microbatches 4 --accum 3") == Samples{8, 8});
    CHECK(samples(strategy + "--gpus 2 --batch 20 --microbatches 3") == Samples{4, 4});  // 4, 4, 2
  }
  // Under autocast the same numbers are halves: the cast of the input, and results that are half.
  for (const std::string strategy : {"ddp", "dp"}) {
    const std::string flags = "--gpus 4 --dim 4096 --depth 8 --batch 512 --strategy " + strategy;
    CHECK(make_plan(spec(flags)).live.back().bytes == 128 * 9 * 4096 * 4);
    CHECK(make_plan(spec(flags + " --dtype amp-fp16")).live.back().bytes == 128 * 9 * 4096 * 2);
    CHECK(make_plan(spec(flags + " --dtype tf32")).live.back().bytes == 128 * 9 * 4096 * 4);
  }
  CHECK(samples("--strategy ddp --gpus 4 --batch 10") == Samples{3, 3, 2, 2});
  CHECK(samples("--strategy dp --gpus 4 --batch 9") == Samples{3, 3, 3, 0});
}
