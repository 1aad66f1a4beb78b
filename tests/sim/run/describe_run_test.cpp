#include "sim/run/describe_run.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

TEST_CASE("layers of GPUs") {
  RunResult run = drawn_run(2, {{0, "aA"}, {1, "aA"}});
  run.stages = {{{0}, 0, 3, 1, 1}, {{1}, 3, 2, 1, 1}, {{0}, 5, 1, 1, 1}};
  CHECK(layers_of_gpus(run) == std::vector<std::string>{"4 (0-2, 5)", "2 (3-4)"});
}

TEST_CASE("layers of a model with blocks have names") {
  RunResult run = drawn_run(2, {{0, "aA"}, {1, "aA"}});
  run.spec.model = tiny_transformer("--gpus 1 --strategy single", 5).model;
  run.stages = {{{0}, 0, 3, 1, 1}, {{1}, 3, 1, 1, 1}, {{0}, 4, 3, 1, 1}};
  CHECK(layer_ranges_of_gpus(run) ==
        std::vector<std::string>{"embedding, block 0 to block 1, block 3 to block 4, head", "block 2"});
  CHECK(layer_range(run.spec.model, 1, 5) == "block 0 to block 4");
  CHECK(layer_range(mlp(4, 8), 1, 3) == "1-3");
  CHECK(layer_range(mlp(4, 8), 2, 1) == "2");
}
