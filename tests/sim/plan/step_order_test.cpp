#include "sim/plan/step_order.hpp"

#include "sim/plan/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// "0F0 0F1 0B0 0B1": what a worker does, round after round.
std::string order_of(const std::string& flags, std::int32_t worker) {
  const RunSpec of = spec("--depth 4 --dim 64 --batch 8 " + flags);
  const StepOrder order(of, resolve(of).mesh, microbatch_rows(of));
  std::string text;
  for (const Operation& operation : order.of_worker(worker))
    text += (text.empty() ? "" : " ") + action_name(operation.kind, operation.stage, operation.microbatch);
  return text;
}

}  // namespace

TEST_CASE("stages are counted on from replica to replica, micro-batches from round to round") {
  const std::string flags = "--gpus 4 --dp 2 --microbatches 2 --schedule 1f1b ";
  CHECK(order_of(flags, 0) == "0F0 0F1 0B0 0B1");
  CHECK(order_of(flags, 1) == "1F0 1B0 1F1 1B1");
  CHECK(order_of(flags, 3) == "3F0 3B0 3F1 3B1");
  CHECK(order_of(flags + "--accum 2", 3) == "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3");
}
