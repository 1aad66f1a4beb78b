#include "sim/plan/plan.hpp"

#include <numeric>

#include "sim/model/model.hpp"
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

TEST_CASE("one thread for two GPUs: options A and B of the course") {
  CHECK(program(make_plan(spec("--gpus 2 --microbatches 2 --depth 2 --schedule naive --workers one")), 0) ==
        "0F0, send 0F0, receive 1F0, 1F0, 1B0, send 1B0, receive 0B0, 0B0, "
        "0F1, send 0F1, receive 1F1, 1F1, 1B1, send 1B1, receive 0B1, 0B1, optimizer 0, optimizer 1");
  CHECK(program(make_plan(spec("--gpus 2 --microbatches 2 --depth 2 --schedule gpipe --workers one")), 0) ==
        "0F0, send 0F0, receive 1F0, 1F0, 0F1, send 0F1, receive 1F1, 1F1, "
        "1B0, send 1B0, receive 0B0, 0B0, 1B1, send 1B1, receive 0B1, 0B1, optimizer 0, optimizer 1");
}

TEST_CASE("layers, parameters and samples add up, whatever does not divide") {
  for (const auto& [gpus, depth, batch, microbatches] :
       {std::tuple{4, 30, 64, 8}, {8, 40, 10, 4}, {16, 80, 17, 8}, {7, 7, 1, 1}, {3, 11, 5, 8}}) {
    const Plan plan =
        make_plan(spec("--gpus " + std::to_string(gpus) + " --depth " + std::to_string(depth) + " --dim 64 --batch " +
                       std::to_string(batch) + " --microbatches " + std::to_string(microbatches)));
    std::int64_t layers = 0, sum_parameters = 0;
    for (const Stage& stage : plan.stages) {
      CHECK(stage.first_layer == layers);
      layers += stage.layer_count;
      sum_parameters += parameters(plan.spec.model, stage.first_layer, stage.layer_count);
    }
    CHECK(layers == depth);
    CHECK(sum_parameters == parameters(plan.spec.model));
    CHECK(std::accumulate(plan.microbatch_rows.begin(), plan.microbatch_rows.end(), std::int64_t{0}) == batch);
  }
}

TEST_CASE("slices that torch.chunk would not make are warned about") {
  CHECK(make_plan(spec("--batch 5 --microbatches 8")).microbatch_rows.size() == 5);
  CHECK(make_plan(spec("--batch 5 --microbatches 8")).warnings.size() == 1);
  CHECK(make_plan(spec("--batch 17 --microbatches 8")).microbatch_rows.size() == 6);
  CHECK(make_plan(spec("--batch 16 --microbatches 8")).warnings.empty());
}

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

TEST_CASE("transfers carry rows x width x 4 bytes, one per boundary, micro-batch and direction") {
  const Plan plan = make_plan(spec("--gpus 5 --depth 20 --dim 8192 --batch 2048 --microbatches 1 --strategy mp"));
  std::int64_t sends = 0, bytes = 0;
  for (const Task& task : plan.graph.tasks) {
    if (task.kind != TaskKind::send_forward) continue;
    ++sends;
    bytes += plan.graph.works[task.work].bytes;
  }
  CHECK(sends == 4);
  CHECK(bytes == 4 * 2048ll * 8192 * 4);
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
