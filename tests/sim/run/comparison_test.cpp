#include "sim/run/comparison.hpp"

#include <algorithm>

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

TEST_CASE("a setting that is usual in one run is said by its value there, one without meaning is -") {
  const RunSpec by_pytorch = spec("--gpus 2 --schedule gpipe --microbatches 4 --program pytorch");
  const RunSpec by_pdl = spec("--gpus 2 --schedule gpipe --microbatches 4");
  const auto differences = settings_that_differ(by_pytorch, by_pdl);
  const auto program =
      std::find_if(differences.begin(), differences.end(), [](auto& d) { return d.name == "program"; });
  REQUIRE(program != differences.end());
  CHECK(program->a == "pytorch");
  CHECK(program->b == "pdl");
  const auto buckets = settings_that_differ(spec("--gpus 2 --strategy ddp --bucket-mb 50"), by_pdl);
  CHECK(std::any_of(buckets.begin(), buckets.end(),
                    [](auto& d) { return d.name == "bucket-mb" && d.a == "50" && d.b == "-"; }));
}

TEST_CASE("two programs of the same settings differ in their workers and transport alone") {
  const RunSpec by_pytorch = spec("--gpus 2 --schedule gpipe --microbatches 4 --program pytorch");
  CHECK(differ_in_program_alone(by_pytorch, spec("--gpus 2 --schedule gpipe --microbatches 4")));
  CHECK_FALSE(differ_in_program_alone(by_pytorch, spec("--gpus 2 --schedule gpipe --microbatches 8")));
  CHECK_FALSE(differ_in_program_alone(by_pytorch, by_pytorch));
}
