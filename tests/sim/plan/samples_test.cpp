#include "sim/plan/plan.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("slices that torch.chunk would not make are warned about") {
  CHECK(make_plan(spec("--batch 5 --microbatches 8")).microbatch_rows.size() == 5);
  CHECK(make_plan(spec("--batch 5 --microbatches 8")).warnings.size() == 1);
  CHECK(make_plan(spec("--batch 17 --microbatches 8")).microbatch_rows.size() == 6);
  CHECK(make_plan(spec("--batch 16 --microbatches 8")).warnings.empty());
}

TEST_CASE("dp: slices are torch.chunk's, GPUs without one are idle (pytorch #15161)") {
  using Rows = std::vector<std::int64_t>;
  const auto rows = [](const char* batch, const char* gpus) {
    return make_plan(spec(std::string("--strategy dp --depth 1 --dim 64 --batch ") + batch + " --gpus " + gpus))
        .replica_rows;
  };
  CHECK(rows("10", "4") == Rows{3, 3, 3, 1});
  CHECK(rows("9", "4") == Rows{3, 3, 3, 0});
  CHECK(rows("5", "8") == Rows{1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(rows("17", "8") == Rows{3, 3, 3, 3, 3, 2, 0, 0});
  CHECK(tasks_of("--strategy dp --depth 1 --dim 64 --batch 9 --gpus 4", 3).empty());
}

TEST_CASE("ddp: parts of the batch are as even as can be and add up") {
  CHECK(make_plan(spec("--strategy ddp --gpus 4 --depth 1 --dim 64 --batch 10")).replica_rows ==
        std::vector<std::int64_t>{3, 3, 2, 2});
}
