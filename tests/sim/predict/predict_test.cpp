#include "sim/predict/predict.hpp"

#include "sim/io/error.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

TEST_CASE("eight stages and one micro-batch: (M + 7) x 3 ms") {
  const RunResult run =
      predict(spec("--gpus 8 --microbatches 1 --depth 8 --schedule 1f1b --tf 1 --tb 2 --tcomm 0"), nullptr);
  CHECK(run.step_time.median_ms == 24);
  CHECK(compute_metrics(run).bubble_fraction == 0.875);
  CHECK_FALSE(run.measured);
}

TEST_CASE("one GPU: forward, loss, backward, optimizer, the overhead of a step") {
  const CostProfile profile = tiny_profile();
  // 256 + 10 + 256 (the only layer needs no input gradient) + 5 + 20 + 7 us
  CHECK(predict(spec("--depth 1 --dim 64 --batch 256 --microbatches 1"), &profile).step_time.median_ms == 0.554);
  // Four micro-batches: 4 x (64 + 10 + 64) + 25 + 7
  CHECK(predict(spec("--depth 1 --dim 64 --batch 256 --microbatches 4"), &profile).step_time.median_ms == 0.584);
}

TEST_CASE("what is predicted one after another is what is predicted alone, whatever the plans share") {
  CostProfile profile = tiny_profile();
  profile.host_description.device = "cuda";
  PlanMaker plans;
  LayerFamilies families(profile);
  for (const char* flags :
       {"--schedule 1f1b --gpus 2", "--schedule gpipe --gpus 2 --recompute 1", "--schedule naive --gpus 2",
        "--schedule 1f1b --gpus 2 --delay-ms 1", "--schedule 1f1b --gpus 2 --straggler 1:2",
        "--schedule 1f1b --gpus 2 --accum 2", "--strategy mp --gpus 2"}) {
    for (const char* sizes :
         {"--dim 64 --batch 256", "--dim 64 --batch 64", "--dim 64 --batch 250", "--dim 64 --batch 128"}) {
      const RunSpec asked = spec(std::string("--depth 4 --microbatches 4 ") + flags + " " + sizes);
      INFO(flags << " " << sizes);
      const RunResult alone = predict(asked, &profile);
      const RunResult after = predict(asked, &profile, {.families = &families, .plans = &plans});
      CHECK(to_json(after).dump() == to_json(alone).dump());
    }
  }
}

TEST_CASE("naive split over two GPUs: everything one after another") {
  const CostProfile profile = tiny_profile();
  const RunResult run =
      predict(spec("--strategy mp --gpus 2 --depth 2 --dim 64 --batch 256 --microbatches 1"), &profile);
  // F 256, copy 3, F 256, loss 10, B 512, copy 3, B 256, optimizer 25, overhead 7
  CHECK(run.step_time.median_ms == 1.328);
  CHECK(run.transfer_bytes == std::vector<std::int64_t>{256 * 64 * 4, 256 * 64 * 4});
  CHECK(run.peak_memory_bytes.size() == 2);
  CHECK(run.environment["profile"]["name"] == "tiny");
  CHECK(run.warnings.empty());
  const RunMetrics metrics = compute_metrics(run);
  CHECK(metrics.step_ns == 1'328'000);
  CHECK(metrics.gpus[0].idle_after_ns == 7'000);  // the overhead
}

TEST_CASE("more memory than the card has: the plan cannot run") {
  CostProfile profile = tiny_profile();
  const RunSpec small = spec("--depth 1 --dim 64 --batch 256 --microbatches 1");
  CHECK_NOTHROW(predict(small, &profile));
  profile.host_description.memory_capacity_bytes = 100'000;
  CHECK_THROWS_WITH(predict(small, &profile), ContainsSubstring("out of memory: GPU 0 needs"));
  CHECK_THROWS_AS(predict(small, &profile), CannotRun);
  CHECK_NOTHROW(predict(small, &profile, {.memory_limit_bytes = 1 << 30}));  // a limit that was given is the limit
  profile.host_description.memory_capacity_bytes = 0;                        // not known
  CHECK_NOTHROW(predict(small, &profile));
}

TEST_CASE("the loss scale changes no prediction: it is said") {
  const auto warned = [](const std::string& flags) {
    const RunResult run = predict(spec("--strategy ddp --gpus 2 --tf 1 --tb 2 --dtype amp-fp16 " + flags), nullptr);
    return std::any_of(run.warnings.begin(), run.warnings.end(), [](const std::string& w) {
      return w.starts_with("loss-scale 1024: ") && w.find("skips are not predicted") != std::string::npos;
    });
  };
  CHECK(warned("--loss-scale 1024"));
  CHECK_FALSE(warned("--loss-scale 65536"));
  CHECK_FALSE(warned(""));
}

TEST_CASE("sizes near the limits: right numbers, or refused") {
  // A relay over 100,000 GPUs: 300 s of compute on each, one after another.
  const RunResult relay = predict(
      spec("--gpus 100000 --depth 100000 --dim 1 --batch 1 --microbatches 1 --schedule naive --tf 100000 --tb 200000"),
      nullptr);
  CHECK(relay.timeline.step_ns == 100'000 * 300'000'000'000);
  // An activation of 4.4e12 bytes, 2^42, there, its gradient back.
  const RunResult large =
      predict(spec("--gpus 2 --depth 2 --dim 1000000 --batch 1100000 --microbatches 1 --tf 1 --tb 2"), nullptr);
  CHECK(compute_metrics(large).transfer_bytes == 2 * 4'400'000'000'000);
  const auto refused = [](const std::string& flags) {
    try {
      predict(spec(flags), nullptr);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  // 2e7 sleeps of an hour, 8e12 bytes of activations between each of 1e6 stages.
  CHECK_THAT(refused("--gpus 1 --batch 1000000 --microbatches 1000000 --accum 20 --tf 1 --tb 1 --delay-ms 3600000"),
             ContainsSubstring("ms of work in all"));
  CHECK_THAT(refused("--gpus 4 --depth 1000000 --dim 100000 --batch 1000000000 --microbatches 4 --tf 1 --tb 1"),
             ContainsSubstring("bytes of activations"));
}
