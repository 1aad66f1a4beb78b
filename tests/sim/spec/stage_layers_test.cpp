// How many layers each stage has, as said, and what does not add up.
#include "sim/spec/stage_layers.hpp"

#include "sim/io/error.hpp"
#include "sim/run/run_name.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// "8 8 7 7"
std::string stages_of(const std::string& flags) {
  std::string text;
  for (const Stage& stage : make_plan(spec(flags)).stages)
    text += (text.empty() ? "" : " ") + std::to_string(stage.layer_count);
  return text;
}

}  // namespace

TEST_CASE("a split gives each stage its layers, of blocks or of all layers", "[split]") {
  const std::string mlp = "--depth 10 --dim 8 --batch 8 --gpus 4 --split ";
  CHECK(stages_of(mlp + "1,2,3,4") == "1 2 3 4");
  CHECK(stages_of(mlp + "1/2/3/4") == "1 2 3 4");
  CHECK(stages_of("--depth 10 --dim 8 --batch 8 --gpus 4 --dp 2 --split 7,3") == "7 3 7 3");
  CHECK(stages_of("--depth 10 --dim 8 --batch 8 --gpus 2 --chunks 2 --schedule interleaved --split 1,2,3,4") ==
        "1 2 3 4");
  CHECK(stages_of("--depth 10 --dim 8 --batch 8 --gpus 2 --strategy mp --split 1,9") == "1 9");
  const std::string gpt = "--model gpt2 --sequence 8 --gpus 4";
  CHECK(stages_of(gpt) == "4 4 3 3");
  CHECK(stages_of(gpt + " --split 3,3,3,3") == "4 3 3 4");
  CHECK(stages_of(gpt + " --split 3,4,4,3") == "3 4 4 3");
  CHECK(stages_of("--model gpt2 --sequence 8 --split 12 --strategy pp") == "14");
}

TEST_CASE("a split that does not add up is refused, and both numbers are named", "[split]") {
  const auto refused = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_WITH(spec(flags), message);
  };
  refused("--depth 10 --gpus 2 --split 4,5",
          "--split: found 4,5, which adds up to 9, expected 10, the number of layers");
  refused("--depth 10 --gpus 2 --split 4,5,1",
          "--split: found 4,5,1, which is 3 numbers, expected 2 numbers, one for "
          "each stage");
  refused("--depth 10 --gpus 2 --split 10,0", "--split: found 0, expected a whole number from 1 to 1000000");
  refused("--depth 10 --gpus 2 --split 10,x", "--split: found x, expected a whole number from 1 to 1000000");
  refused("--model gpt2 --gpus 2 --split 6,7",
          "--split: found 6,7, which adds up to 13, expected 12, the number of blocks, or 14, the number of all "
          "layers");
  refused("--gpus 2 --strategy ddp --split 8",
          "--split: found split 8 with strategy ddp, expected no split: it has no meaning there");
}

TEST_CASE("a split is in the name of a run, and auto is found by pdl-sim alone", "[split]") {
  const std::string flags = "--depth 10 --gpus 2 --split ";
  CHECK_THAT(run_name(spec(flags + "4,6")), ContainsSubstring("_split4-6"));
  CHECK_THAT(run_name(spec(flags + "auto")), ContainsSubstring("_splitauto"));
  CHECK_THROWS_WITH(make_plan(spec(flags + "auto")),
                    "--split: found auto, which is found by pdl-sim, expected the layers of each stage: what pdl-sim "
                    "says");
}
