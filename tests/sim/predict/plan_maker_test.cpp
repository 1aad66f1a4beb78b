#include "sim/predict/plan_maker.hpp"

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::vector<std::vector<TaskId>> edges_of(const TaskGraph& graph) {
  std::vector<std::vector<TaskId>> edges;
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    const std::span<const TaskId> after = graph.edges.after(task);
    edges.emplace_back(after.begin(), after.end());
  }
  return edges;
}

std::vector<std::array<std::int64_t, 6>> places_of(const TaskGraph& graph) {
  std::vector<std::array<std::int64_t, 6>> places;
  for (const Task& task : graph.tasks)
    places.push_back({task.work, task.stream, task.host, task.group, task.stage, task.microbatch});
  return places;
}

void check_same(const Plan& plan, const Plan& expected) {
  CHECK(plan.spec == expected.spec);
  CHECK(plan.graph.works == expected.graph.works);
  CHECK(places_of(plan.graph) == places_of(expected.graph));
  CHECK(edges_of(plan.graph) == edges_of(expected.graph));
  CHECK(plan.slots == expected.slots);
  CHECK(plan.live == expected.live);
  CHECK(plan.replica_rows == expected.replica_rows);
  CHECK(plan.microbatch_rows == expected.microbatch_rows);
  CHECK(plan.warnings == expected.warnings);
  for (std::size_t s = 0; s < expected.stages.size(); ++s) {
    CHECK(plan.stages.at(s).slots == expected.stages[s].slots);
    CHECK(plan.stages.at(s).live_microbatches == expected.stages[s].live_microbatches);
  }
}

}  // namespace

TEST_CASE("plans one after another are those made alone, whatever they share") {
  PlanMaker plans;
  std::vector<std::string> steps = every_schedule(4, 8);
  for (const char* more : {"--pp 2 --dp 2 --accum 2 ", "--strategy ddp --gpus 2 ", "--strategy dp --gpus 2 ",
                           "--schedule gpipe --gpus 2 --workers one ", "--schedule 1f1b --gpus 2 --transport nccl "})
    steps.push_back(more);
  for (const std::string& costs : {std::string("--tf 1 --tb 2 --tcomm .1 "), std::string()}) {
    for (const char* sizes : {"--dim 64 --batch 64", "--dim 96 --batch 64", "--dim 96 --batch 62",
                              "--dim 64 --batch 126", "--dim 64 --batch 128"}) {
      for (const std::string& step : steps) {
        if (step.find("--transport") != step.npos && !costs.empty()) continue;
        const RunSpec asked = spec("--depth 16 " + step + costs + sizes);
        INFO(step << costs << sizes);
        check_same(plans.plan(asked).plan, make_plan(asked));
      }
    }
  }
}

TEST_CASE("a graph serves the plans that differ in batch and width alone") {
  const std::string step = "--schedule 1f1b --gpus 4 --microbatches 8 ";
  PlanMaker plans;
  const auto shares = [&](const std::string& flags) { return plans.plan(spec(step + flags)).runs.has_value(); };
  CHECK_FALSE(shares("--dim 64 --batch 64"));
  CHECK(shares("--dim 96 --batch 64"));
  CHECK(shares("--dim 64 --batch 640"));
  CHECK_FALSE(shares("--dim 64 --batch 63"));  // the last micro-batch is a work of its own
  CHECK(shares("--dim 128 --batch 31"));
  CHECK_FALSE(shares("--dim 64 --batch 64 --depth 9"));
  CHECK_FALSE(shares("--dim 64 --batch 64 --dtype tf32"));
  CHECK(shares("--dim 64 --batch 128"));  // the first one is still there
}

TEST_CASE("a plan that is refused leaves the others") {
  PlanMaker plans;
  const std::string step = "--schedule 1f1b --gpus 2 --microbatches 4 --tf 1 --tb 2 ";
  plans.plan(spec(step + "--batch 8"));
  RunSpec too_few = spec(step + "--batch 8");
  too_few.batch = 3;
  CHECK_THROWS_AS(plans.plan(too_few), InputError);
  check_same(plans.plan(spec(step + "--batch 16")).plan, make_plan(spec(step + "--batch 16")));
}
