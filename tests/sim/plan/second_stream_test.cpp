#include "sim/plan/second_stream.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("a second stream: where there is something beside it, no autocast, and no layer made of others") {
  const auto tries = [](const std::string& words) {
    const Plan plan = make_plan(spec(words));
    std::string stages;
    for (std::int32_t s = 0; s < std::ssize(plan.stages); ++s) stages += tries_second_stream(plan, s) ? '2' : '1';
    return stages;
  };
  CHECK(tries("--gpus 2 --depth 4 --schedule gpipe") == "22");
  CHECK(tries("--gpus 3 --depth 3 --schedule gpipe") == "122");
  CHECK(tries("--gpus 2 --depth 4 --schedule gpipe --dtype amp-bf16") == "11");
  CHECK(tries("--model gpt --layers 2 --gpus 2 --schedule gpipe") == "11");
}
