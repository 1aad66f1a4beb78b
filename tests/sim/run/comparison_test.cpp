#include "sim/run/comparison.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

namespace {

RunResult predicted() {
  return drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}, {1, "..........<<..."}});
}

RunResult measured() {
  RunResult run = drawn_run(
      2, {{0, "aaabb....BBBAAAAo"}, {0, "...>>............"}, {1, "....aabbBBBAAA..o"}, {1, "...........<<...."}});
  run.measured = true;
  run.step_time = {17.1, 17.0, 17.2, 30};
  return run;
}

}  // namespace

TEST_CASE("a comparison as JSON") {
  const auto json = compare_json(predicted(), "p.json", measured(), "m.json");
  CHECK(json["step_time_ms"]["a"] == 15.0);
  CHECK(json["step_time_ms"]["b"] == 17.1);
  CHECK(json["step_time_ms"]["difference_percent"] == Approx(100 * (15 - 17.1) / 17.1));
  CHECK(json["mean_forward_ms"]["a"] == 2.0);
  CHECK(json["mean_forward_ms"]["b"] == 2.25);
  CHECK(json["transfers_bytes"]["a"] == 64);
  CHECK(json["settings_that_differ"].empty());
}

TEST_CASE("a comparison names the settings that differ") {
  const RunResult other = drawn_run(3, {{0, "aA.."}, {1, ".aA."}, {2, "..aA"}});
  const auto json = compare_json(predicted(), "a", other, "b");
  CHECK(json["settings_that_differ"].size() == 4);  // depth, batch, microbatches, gpus
}
