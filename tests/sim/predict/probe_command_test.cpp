#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

Environment gpus(std::int64_t count) {
  Environment machine;
  machine.device = "cuda";
  machine.count = count;
  return machine;
}

}  // namespace

TEST_CASE("the command has the words that were given, and always the model, the batch and the GPUs") {
  CHECK(probe_command(spec("--dim 3584 --depth 13 --batch 1100 --gpus 2 --strategy mp"), {}, "data/h200x4/samples.json",
                      gpus(4)) ==
        "pdl-calibrate --from data/h200x4/samples.json --depth 13 --dim 3584 --batch 1100 --gpus 2 --strategy mp "
        "--samples samples.json --out profile.json");
  CHECK(probe_command(spec("--dtype tf32 --recompute 1 --gpus 2 --schedule 1f1b"), {}, "", {}) ==
        "pdl-calibrate --depth 8 --dim 8192 --batch 2048 --gpus 2 --schedule 1f1b --recompute 1 --dtype tf32 "
        "--samples samples.json --out profile.json");
}

TEST_CASE("of a split that was found its layers, and of more GPUs than the machine has those that it has") {
  CHECK(probe_command(spec("--dim 64 --depth 7 --batch 64 --gpus 3 --split auto"), {3, 2, 2}, "", gpus(2)) ==
        "pdl-calibrate --depth 7 --dim 64 --batch 64 --gpus 2 --plan-gpus 3 --split 3,2,2 --samples samples.json --out "
        "profile.json");
  CHECK_THAT(probe_command(spec("--gpus 3"), {}, "", gpus(3)), ContainsSubstring(" --gpus 3 --"));
}

TEST_CASE("on the machine of a CPU's profile it is measured there") {
  Environment machine;
  machine.device = "cpu";
  CHECK_THAT(probe_command(spec("--gpus 3"), {}, "", machine), ContainsSubstring(" --gpus 3 --device cpu --samples"));
}

TEST_CASE("a path that a shell would take apart is in quotes") {
  CHECK_THAT(probe_command(spec("--dim 64"), {}, "my data/it's.json", {}),
             Catch::Matchers::StartsWith("pdl-calibrate --from 'my data/it'\\''s.json' --"));
}

TEST_CASE("samples lie beside the profile's file, or are not named") {
  const TemporaryFolder folder;
  const CostProfile profile = tiny_profile();
  save_profile(profile, folder.write("tiny/profile.json", ""));
  CHECK(samples_beside(folder / "tiny/profile.json", profile).empty());
  const std::string samples = folder.write("tiny/samples.json", "{}");
  CHECK(samples_beside(folder / "tiny/profile.json", profile) == samples);
  CHECK(samples_beside(folder / "tiny", profile) == samples);
  CHECK(samples_beside(std::nullopt, profile).empty());  // no bundled profile has that name
  CostProfile bundled = profile;
  bundled.name = "h200x4";
  CHECK_THAT(samples_beside(std::nullopt, bundled), Catch::Matchers::EndsWith("data/h200x4/samples.json"));
  CHECK_THAT(samples_beside("h200x4", bundled), Catch::Matchers::EndsWith("data/h200x4/samples.json"));
}
