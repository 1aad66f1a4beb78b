#include "sim/engine/run.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("live micro-batches: all under GPipe, at most P - s under 1F1B") {
  const auto live = [](const std::string& flags) {
    std::vector<std::int32_t> counts;
    for (const Stage& stage : make_plan(spec(flags)).stages) counts.push_back(stage.live_microbatches);
    return counts;
  };
  CHECK(live("--gpus 4 --microbatches 8 --schedule gpipe") == std::vector<std::int32_t>{8, 8, 8, 8});
  CHECK(live("--gpus 4 --microbatches 8 --schedule 1f1b") == std::vector<std::int32_t>{4, 3, 2, 1});
  CHECK(live("--gpus 4 --microbatches 2 --schedule 1f1b") == std::vector<std::int32_t>{2, 2, 2, 1});
  CHECK(live("--gpus 4 --microbatches 8 --schedule naive") == std::vector<std::int32_t>{1, 1, 1, 1});
  CHECK(live("--gpus 8 --microbatches 32 --schedule 1f1b --tf 1 --tb 1").front() == 8);
  CHECK(live("--gpus 8 --microbatches 32 --schedule gpipe --tf 1 --tb 1").front() == 32);
}

TEST_CASE("a buffer is never needed by two micro-batches at once") {
  // What makes slots safe: the order already implies that a micro-batch's backward has ended, and its input gradient
  // has been sent, before the activation of the next user of its buffer starts to arrive. Every work has its own
  // duration.
  for (const char* schedule : {"naive", "gpipe", "1f1b"}) {
    for (int gpus = 1; gpus <= 6; ++gpus) {
      for (int microbatches = 1; microbatches <= 9; ++microbatches) {
        const Plan plan = make_plan(spec("--gpus " + std::to_string(gpus) + " --schedule " + schedule +
                                         " --batch 36 --microbatches " + std::to_string(microbatches)));
        std::vector<TaskCost> costs;
        for (std::size_t w = 0; w < plan.graph.works.size(); ++w)
          costs.push_back(device_only(1 + static_cast<std::int64_t>(w * 7919 % 101)));
        const std::vector<TaskTimes> times = run_graph(plan.graph, costs);
        const auto end_of = [&](TaskKind kind, int stage, int microbatch) {
          for (TaskId id = 0; id < times.size(); ++id) {
            const Task& t = plan.graph.tasks[id];
            if (t.kind == kind && t.stage == stage && t.microbatch == microbatch) return times[id].end_ns;
          }
          FAIL("no such task");
          return std::int64_t{0};
        };
        for (TaskId id = 0; id < times.size(); ++id) {
          const Task& t = plan.graph.tasks[id];
          if (t.kind != TaskKind::send_forward) continue;
          const int owner = t.microbatch - plan.stages[t.stage + 1].slots;
          if (owner < 0) continue;
          CHECK(end_of(TaskKind::backward, t.stage + 1, owner) <= times[id].start_ns);
          CHECK(end_of(TaskKind::send_backward, t.stage + 1, owner) <= times[id].start_ns);
        }
      }
    }
  }
}
