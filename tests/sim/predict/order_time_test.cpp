#include "sim/predict/order_time.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

OrderCosts equal_costs(const ScheduleShape& shape, std::int64_t forward_ns, std::int64_t input_ns,
                       std::int64_t weight_ns, std::int64_t transfer_ns) {
  const StageCosts stage{forward_ns, input_ns + weight_ns, input_ns, weight_ns};
  return {std::vector<StageCosts>(static_cast<std::size_t>(shape.stages()), stage), transfer_ns};
}

}  // namespace

TEST_CASE("1F1B on 2 workers, 2 micro-batches, by hand") {
  //  worker 0   F0 F1 .. .. .. B0 B0 .. B1 B1     forward 1, backward 2, transfer 1
  //  worker 1   .. .. F0 B0 B0 F1 B1 B1
  const ScheduleShape shape{2, 1, 2};
  const auto time = order_time(make_order(*find_schedule("1f1b"), shape), equal_costs(shape, 1, 1, 1, 1));
  REQUIRE(time);
  CHECK(time->makespan_ns == 11);
  CHECK(time->longest_worker_ns == 11);
}

TEST_CASE("Steps that overlap: zb-h2 with equal F, I, W works without a gap on every worker") {
  const ScheduleShape shape{4, 1, 8};
  const auto time = order_time(make_order(*find_schedule("zb-h2"), shape), equal_costs(shape, 1, 1, 1, 0));
  REQUIRE(time);
  CHECK(time->longest_worker_ns == 3 * 8);
  CHECK(time->makespan_ns == 3 * 8 + 3);
}

TEST_CASE("A backward before the forward of the stage above is a deadlock") {
  PipelineOrder order = make_order(*find_schedule("gpipe"), {2, 1, 1});
  std::swap(order.workers[0][0], order.workers[0][1]);
  CHECK_FALSE(order_time(order, equal_costs(order.shape, 1, 1, 1, 0)));
}
