#include "sim/predict/find_order.hpp"
#include "sim/predict/predict.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("auto finds the order of one replica and one round") {
  const std::string flags = "--pp 2 --dp 2 --chunks 2 --batch 64 --microbatches 4 --tf 1 --tb 2 --tcomm 0 --accum ";
  CHECK(predict(spec(flags + "2 --schedule auto"), nullptr).timeline.workers == 4);
  // Each GPU works 4 x 6 a round. With two chunks, down and up, the second one waits for half a forward, and no order
  // does better.
  CHECK(step_ms(flags + "1 --schedule auto") == 1 + 4 * 6);
  // Two rounds of it, one after another; 1F1B waits for a forward, and for a backward at the end.
  CHECK(step_ms(flags + "2 --schedule auto") <= 2 * (1 + 4 * 6));
  CHECK(step_ms(flags + "2 --schedule auto") >= 1 + 8 * 6);
  CHECK(step_ms("--pp 2 --dp 2 --batch 64 --microbatches 4 --tf 2 --tb 4 --tcomm 0 --schedule 1f1b") == 2 + 4 * 6 + 4);
}

TEST_CASE("auto with rounds: as many micro-batches as torch.chunk makes, in the settings too") {
  const RunSpec asked = spec("--pp 2 --gpus 2 --depth 4 --dim 64 --batch 5 --microbatches 4 --accum 2 --schedule auto");
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h100x4/profile.json");
  LayerFamilies families(profile);
  CHECK(with_found_order(asked, &families, std::nullopt).microbatches == 3);
}
