#include "sim/plan/plan.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// The tasks of one host in program order, as text.
std::string program(const Plan& plan, std::uint32_t host) {
  std::string text;
  for (const Task& task : plan.graph.tasks) {
    if (task.host != host) continue;
    text += (text.empty() ? "" : ", ") + task_name(task.kind, task.stage, task.microbatch, plan.graph.hosts == 1);
  }
  return text;
}

}  // namespace

TEST_CASE("1F1B on two GPUs, by the copy engine: sends follow what they send") {
  const Plan plan = make_plan(spec("--gpus 2 --microbatches 3 --depth 2 --schedule 1f1b"));
  CHECK(program(plan, 0) == "F0, send F0, F1, send F1, B0, F2, send F2, B1, B2, optimizer");
  CHECK(program(plan, 1) == "F0, B0, send B0, F1, B1, send B1, F2, B2, send B2, optimizer");
}

TEST_CASE("1F1B on two GPUs, by NCCL: receives are posted before their consumer") {
  const Plan plan = make_plan(spec("--gpus 2 --microbatches 2 --depth 2 --schedule 1f1b --transport nccl"));
  CHECK(program(plan, 0) == "F0, send F0, F1, send F1, receive B0, B0, receive B1, B1, optimizer");
  CHECK(program(plan, 1) == "receive F0, F0, B0, send B0, receive F1, F1, B1, send B1, optimizer");
  CHECK(plan.graph.groups == 4);
}

TEST_CASE(
    "only the first layer of the model lacks an input gradient, only the last stage has the loss, the first "
    "micro-batch writes") {
  const Plan plan = make_plan(spec("--gpus 3 --microbatches 2 --depth 3 --schedule gpipe"));
  for (const Task& task : plan.graph.tasks) {
    if (task.kind != TaskKind::backward) continue;
    const Work& work = plan.graph.works[task.work];
    CHECK(work.input_gradient == (task.stage > 0));
    CHECK(work.loss == (task.stage == 2));
    CHECK(work.accumulate == (task.microbatch > 0));
  }
}

TEST_CASE("rounds of a pipeline follow each other without a pause") {
  // Two rounds of naive, one GPU after the other: the second round's first forward starts when its GPU is free.
  CHECK(step_ms("--gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --accum 2") == 12);
  CHECK(step_ms("--gpus 1 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --accum 3") == 18);
  CHECK(step_ms("--gpus 2 --strategy mp --microbatches 1 --tf 1 --tb 2 --accum 2") == 12);
}
