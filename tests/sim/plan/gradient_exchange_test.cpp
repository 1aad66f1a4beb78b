#include "sim/plan/plan.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// "all-reduce 0 of 0 2": its number and its group of GPUs, each once, in the order of the plan.
std::string exchanges_of(const std::string& flags) {
  const Plan plan = make_plan(spec("--depth 8 --dim 64 " + flags));
  std::vector<std::string> all;
  for (const Task& task : plan.graph.tasks) {
    if (!is_collective(task.kind)) continue;
    std::string text = task_name(task.kind, 0, task.microbatch, false, task.part) + " of";
    for (const std::int32_t gpu : worker_group_of(plan.graph, plan.graph.works[task.work]))
      text += " " + std::to_string(gpu);
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  }
  std::string text;
  for (const std::string& exchange : all) text += (text.empty() ? "" : ", ") + exchange;
  return text;
}

}  // namespace

TEST_CASE("pipeline x data parallel: every stage averages its gradients over the replicas") {
  const std::string flags = "--gpus 4 --pp 2 --dp 2 --depth 4 --microbatches 2 --schedule gpipe --tf 1 --tb 2 ";
  const Plan plan = make_plan(spec(flags));
  REQUIRE(plan.stages.size() == 4);
  CHECK(only_worker(plan.stages[2]) == 2);
  CHECK(plan.stages[2].replica == 1);
  CHECK(plan.stages[2].first_layer == 0);
  CHECK(tasks_of(flags, 3) == "F0 | F1 | B0 | send B0 | B1 | send B1 | all-reduce 1 | optimizer");
  // One replica alone: (M + P - 1) x 3 = 9; then the first stage exchanges half of the parameters.
  CHECK(step_ms(flags) == 9);
  CHECK(step_ms(flags + "--tcomm 1") == 9 + 2 + .5);  // two transfers on the way, half of an exchange
  // Every round exchanges, or only the last.
  CHECK(predict(spec(flags + "--accum 3"), nullptr).collective_bytes.size() == 6);
  CHECK(predict(spec(flags + "--accum 3 --no-sync 1"), nullptr).collective_bytes.size() == 2);
}

TEST_CASE("a collective names the GPUs that take part in it") {
  CHECK(exchanges_of("--gpus 4 --pp 2 --dp 2 --schedule gpipe") == "all-reduce 0 of 0 2, all-reduce 1 of 1 3");
  // In a v the last stage of a replica is on its first GPU.
  CHECK(exchanges_of("--gpus 6 --pp 2 --dp 3 --schedule zb-v --batch 96") ==
        "all-reduce 3 of 0 2 4, all-reduce 0 of 0 2 4, all-reduce 2 of 1 3 5, all-reduce 1 of 1 3 5");
  CHECK(exchanges_of("--gpus 3 --strategy ddp --batch 48") == "all-reduce 0 of 0 1 2");
  // torch.chunk makes 2 2 1 of 5 samples: the fourth GPU takes no part.
  CHECK(exchanges_of("--gpus 4 --strategy dp --batch 5") == "broadcast 0 of 0 1 2, reduce 0 of 0 1 2");
  CHECK(exchanges_of("--gpus 4").empty());
}

TEST_CASE("equal groups of GPUs are stored once") {
  const Plan plan = make_plan(spec("--gpus 6 --pp 2 --dp 3 --depth 8 --dim 64 --batch 96 --schedule zb-v --accum 4"));
  CHECK(plan.graph.worker_groups.size() == 2);
}
