#include <map>

#include "sim/plan/plan.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("dp: scatter, broadcast, forward, gather, loss, scatter, backward, reduce, the rest is GPU 0's") {
  const std::string flags = "--strategy dp --gpus 3 --depth 1 --dim 2048 --batch 9";
  CHECK(tasks_of(flags, 0) ==
        "scatter 1 | scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 1 | gather 2 | loss | scatter 1 | scatter 2 | "
        "B0 | "
        "reduce 0 | reduce 1 | optimizer");
  CHECK(tasks_of(flags, 2) ==
        "scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 2 | scatter 2 | B0 | reduce 0 | reduce 1");
  CHECK(tasks_of("--strategy dp --gpus 1 --depth 1 --dim 2048 --batch 9", 0) == "F0 | loss | B0 | optimizer");
}

TEST_CASE(
    "dp: every round, and every micro-batch of it, moves all there is, sums of later ones are added to the gradients") {
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 ";
  const auto round = [](const std::string& m) {
    return "scatter 1 | broadcast 0 | F" + m + " | gather 1 | loss | sleep | scatter 1 | B" + m + " | reduce 0 | ";
  };
  const std::string added = "bucket out 0 | ";
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2", 0) == round("0") + round("1") + added + "optimizer");
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2 --microbatches 2", 0) ==
        round("0") + round("1") + added + round("2") + added + round("3") + added + "optimizer");
  // The other GPU: no loss, no sleep of the main thread, no sums; its own thread may sleep first.
  const auto of_other = [](const std::string& m) {
    return "scatter 1 | broadcast 0 | F" + m + " | gather 1 | scatter 1 | B" + m + " | reduce 0";
  };
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2 --straggler 1:5", 1) ==
        "sleep | " + of_other("0") + " | " + of_other("1"));
  CHECK(tasks_of(flags + "--straggler 0:5", 1) == of_other("0"));
  CHECK(tasks_of("--strategy dp --gpus 1 --depth 1 --dim 64 --batch 8 --accum 2", 0) ==
        "F0 | loss | B0 | F1 | loss | B1 | optimizer");
}

TEST_CASE("dp: micro-batches are slices of each GPU's part of the batch") {
  const Plan plan = make_plan(spec("--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --microbatches 2 --accum 2"));
  CHECK(plan.microbatch_rows == std::vector<std::int64_t>{2, 2, 2, 2});
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    CAPTURE(task_name(task.kind, 0, task.microbatch, false, task.part));
    if (is_compute(task.kind) || is_transfer(task.kind)) CHECK(work.rows == 2);
    if (is_transfer(task.kind)) CHECK(work.bytes == 2 * 64 * 4);
    if (task.kind == TaskKind::loss) CHECK(work.rows == 4);
    if (task.kind == TaskKind::loss) CHECK(work.bytes == 4 * 64 * 4);
    if (task.kind == TaskKind::bucket_copy_out) CHECK(work.accumulate);
    if (task.kind == TaskKind::backward) CHECK_FALSE(work.accumulate);  // each backward's gradients are new
  }
}

TEST_CASE("dp: the main thread waits for the threads of the GPUs, and they for it") {
  // Issue, ms: forward 10, backward 20, others 1; the devices take no time. Slices are issued at both ends.
  //
  //   main    s s b b ..........F g g l s s ....................B r r o      4 + 10 + 5 + 20 + 3
  //   GPU 0          FFFFFFFFFF             BBBBBBBBBBBBBBBBBBBB
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1 ";
  const std::map<TaskKind, HandTimes> hosts = {{TaskKind::forward, {10, 0}}, {TaskKind::backward, {20, 0}}};
  CHECK(step_ms(flags, 1, hosts) == 42);
  // A second round: 39 once more without the optimizer's 1, and its sum's 1.
  CHECK(step_ms(flags + "--accum 2", 1, hosts) == 41 + 41 + 1 + 1);
  // One GPU: forward, loss, the backward of its thread, which waits for the loss of the main thread, the optimizer.
  CHECK(step_ms("--strategy dp --gpus 1 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1", 1, hosts) == 10 + 1 + 20 + 1);
  // The main thread sleeps before the backward; a GPU's thread before its forward, from the start of the step on.
  CHECK(step_ms(flags + "--delay-ms 3", 1, hosts) == 42 + 3);
  for (const std::string gpu : {"0", "1"}) CHECK(step_ms(flags + "--straggler " + gpu + ":20", 1, hosts) == 42 + 16);
}

TEST_CASE("dp: hosts run ahead of the devices, and the devices of nobody") {
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1 ";
  std::map<TaskKind, HandTimes> times = {{TaskKind::forward, {10, 0}}, {TaskKind::backward, {20, 0}}};
  // The broadcast takes 100 from 4 on: everything is issued long before it ends.
  times[TaskKind::broadcast] = {1, 100};
  CHECK(step_ms(flags, 1, times) == 4 + 100);
  // The loss is issued at 17; its 100 hide the rest, but for 7 of the optimizer.
  times[TaskKind::broadcast] = {1, 0};
  times[TaskKind::loss] = {1, 100};
  times[TaskKind::optimizer] = {1, 7};
  CHECK(step_ms(flags, 1, times) == 17 + 100 + 7);
}

TEST_CASE("dp: nothing overlaps, broadcast and reduction take their time each") {
  CHECK(step_ms("--strategy dp --gpus 4 --tf 4 --tb 8 --tcomm 5") == 5 + 4 + 8 + 5);
}
