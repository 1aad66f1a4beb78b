#include "sim/run/describe_run.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

TEST_CASE("layers of GPUs") {
  RunResult run = drawn_run(2, {{0, "aA"}, {1, "aA"}});
  run.stages = {{{0}, 0, 3, 1, 1}, {{1}, 3, 2, 1, 1}, {{0}, 5, 1, 1, 1}};
  CHECK(layers_of_gpus(run) == std::vector<std::string>{"4 (0-2, 5)", "2 (3-4)"});
}
