#include "sim/predict/step_alone.hpp"

#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

TEST_CASE("the step alone is that of a prediction: times, memory") {
  const CostProfile profile = tiny_profile();
  LayerFamilies families(profile);
  for (const char* flags : {"--depth 4 --batch 256 --microbatches 4 --gpus 2 --schedule 1f1b",
                            "--depth 2 --batch 256 --strategy mp --gpus 2 --microbatches 1",
                            "--depth 4 --batch 256 --microbatches 4 --gpus 2 --schedule gpipe --delay-ms 1"}) {
    const RunSpec asked = spec(std::string("--dim 64 ") + flags);
    INFO(flags);
    const RunResult alone = predict_step_alone(asked, &families, std::nullopt), whole = predict(asked, &profile);
    CHECK(alone.timeline.spans == whole.timeline.spans);
    CHECK(alone.step_time.median_ms == whole.step_time.median_ms);
    CHECK(alone.peak_memory_bytes == whole.peak_memory_bytes);
  }
}

TEST_CASE("sleeps are no share of the host") {
  CostProfile profile = tiny_profile();
  profile.host_description.device = "cuda";
  LayerFamilies families(profile);
  const auto share = [&](const std::string& more) {
    const RunSpec asked = spec("--dim 64 --depth 4 --batch 256 --microbatches 4 --gpus 2 --schedule 1f1b" + more);
    return predict_step_alone(asked, &families, std::nullopt).host_share.value();
  };
  CHECK(share(" --delay-ms 50") == share(""));
  CHECK(share(" --straggler 1:50") == share(""));
}
