#include "tests/support/exercise_machine.hpp"

using namespace pdl;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

// Four layers on two or four GPUs, one micro-batch: forward 4 ms and backward 8 ms on each GPU, a move 8 ms.
Tables on_gpus(const std::string& exercise, const std::string& gpus) {
  return ExerciseMachine().tables(exercise, R"("strategy": "mp", "batch": 64)",
                                  R"({"tcomm": [0], "gpus": )" + gpus + "}");
}

}  // namespace

TEST_CASE("which GPU holds which layers, and where the data moves", "[model_parallel]") {
  const Tables tables = on_gpus("current_behaviour", "[2]");
  CHECK(answer(tables, "HW3.1 Q1") ==
        "GPU 0 holds layers 0-1 and GPU 1 holds layers 2-3, of 4 (the plan, which predicted and measured runs share).");
  CHECK(answer(tables, "HW3.1 Q2") ==
        "At .to(layer_device) in front of layer 2 on GPU 1, once in a forward pass, 2.10 MB; the gradient moves back "
        "as often "
        "in the backward pass. The GPUs take turns: at most 1 of 2 GPUs compute at once, 1.00 on average, and each is "
        "busy "
        "50.0 % of the step of 24.00 ms (predicted).");
}

TEST_CASE("more GPUs for the same model save no time", "[model_parallel]") {
  const Tables tables = on_gpus("more_gpus", "[2, 4]");  // a stage takes 12 ms however many layers it has
  CHECK_THAT(answer(tables, "HW3.4 E"), StartsWith("2 GPUs 24.00 ms"));
  CHECK_THAT(answer(tables, "HW3.4 Q"),
             StartsWith("No: at most 1 of 4 GPUs compute at once, 1.00 on average, and each is busy "
                        "25.0 % of the step. It gets slower, 48.00 ms on 4 GPUs, 24.00 ms on 2"));
  const ExerciseMachine machine;
  machine.measure("--strategy mp --gpus 2 --batch 64", 45);
  const Tables measured = machine.tables("more_gpus", R"("strategy": "mp", "batch": 64)", R"({"gpus": [2, 4]})");
  CHECK_THAT(answer(measured, "HW3.4 E"), StartsWith("2 GPUs 45.00 ms"));
  CHECK_THAT(answer(measured, "HW3.4 E"), ContainsSubstring("(measured) and 4 GPUs 96.00 ms"));
  CHECK_THAT(answer(measured, "HW3.4 Q"), ContainsSubstring("40.00 ms on 2"));
  CHECK_THAT(answer(measured, "HW3.4 Q"), EndsWith("(all predicted; measured: 45.00 ms on 2 GPUs)."));
  CHECK(answer(on_gpus("more_gpus", "[2]"), "HW3.4 Q") == "The rows of this table do not say it.");
}

TEST_CASE("moves are one less than GPUs, and the rule gives the map", "[model_parallel]") {
  CHECK(answer(on_gpus("data_transfer", "[2, 4]"), "HW3.5 E") ==
        "It is called 4 times, once a layer, and moves data only where the layer before is on another GPU: 1 move on 2 "
        "GPUs "
        "(2.10 MB) and 3 moves on 4 GPUs (6.29 MB); counted in the plans, which predicted and measured runs share.");
  CHECK_THAT(answer(on_gpus("data_transfer", "[2, 4]"), "HW3.5 Q"), StartsWith("With GPUs - 1: "));
  CHECK_THAT(answer(on_gpus("all_gpus", "[2, 3]"), "HW3.3 C"),
             ContainsSubstring("of 4 layers 2 + 2 on 2 GPUs and 2 + 1 + 1 on 3 "
                               "GPUs"));
  CHECK_THAT(answer(on_gpus("all_gpus", "[2, 3]"), "HW3.3 Q"), EndsWith("It gives the map of all 2 rows."));
}
