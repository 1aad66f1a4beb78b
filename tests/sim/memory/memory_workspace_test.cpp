// The workspaces of a pipeline: without a whole backward nothing runs on the second stream; products of TF32 need none.
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("a GPU holds the workspaces of its kind of program, once, however many stages it has") {
  const WorkspaceBytes workspace{.pipeline = 100 << 20, .pipeline_split = 68 << 20, .autograd = 40 << 20};
  const auto added = [&](const std::string& words) {
    const Plan plan = make_plan(spec("--gpus 2 --depth 8 --dim 64 --batch 64 --microbatches 4 " + words));
    const std::int64_t with = predict_memory_bytes(plan, workspace).front();
    return (with - predict_memory_bytes(plan, {}).front()) >> 20;
  };
  CHECK(added("--schedule 1f1b") == 100);
  CHECK(added("--schedule interleaved") == 100);
  CHECK(added("--schedule zb-h1") == 68);
  CHECK(added("--schedule zb-v") == 68);
  CHECK(added("--schedule dualpipe-v") == 100);  // whole backwards and split ones
  CHECK(added("--schedule gpipe --workers one") == 40);
  CHECK(added("--schedule 1f1b --dtype tf32") == 36);  // without the two of 32 MiB of products in fp32
  CHECK(added("--schedule zb-h1 --dtype tf32") == 4);
}

TEST_CASE("no second stream where there is nothing beside which it could run, and for layers made of others") {
  const WorkspaceBytes workspace{.pipeline = 100 << 20, .pipeline_split = 68 << 20, .autograd = 40 << 20};
  const auto added = [&](const std::string& words) {
    const Plan plan = make_plan(spec(words));
    const std::int64_t with = predict_memory_bytes(plan, workspace).front();
    return (with - predict_memory_bytes(plan, {}).front()) >> 20;
  };
  CHECK(added("--gpus 2 --depth 2 --dim 64 --batch 64 --microbatches 4 --schedule 1f1b") == 100 - 32);
  CHECK(added("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 4 --schedule 1f1b") == 100);
  CHECK(added("--model gpt --layers 1 --hidden 64 --heads 2 --sequence 8 --vocabulary 256 --batch 4 "
              "--strategy single --workers thread") == 100 - 32);
}
