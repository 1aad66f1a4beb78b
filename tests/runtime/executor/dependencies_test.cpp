#include "runtime/executor/dependencies.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/spec/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

Plan plan_of(const std::string& flags) { return make_plan(spec("--dim 8 --depth 8 --batch 64 " + flags)); }

/// "0 send F1", "1 F1": stage and name.
TaskId task(const Plan& plan, const std::string& name) {
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& candidate = plan.graph.tasks[t];
    if (std::to_string(candidate.stage) + " " + task_name(candidate.kind, candidate.stage, candidate.microbatch, false) == name) {
      return t;
    }
  }
  throw std::logic_error("no task " + name);
}

std::vector<std::string> waits(const Plan& plan, const Dependencies& dependencies, const std::string& name) {
  std::vector<std::string> names;
  for (const TaskId before : dependencies.before(task(plan, name))) {
    const Task& t = plan.graph.tasks[before];
    names.push_back(std::to_string(t.stage) + " " + task_name(t.kind, t.stage, t.microbatch, false));
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("A task waits for tasks of other streams only", "[runtime][dependencies]") {
  const Plan plan = plan_of("--gpus 2 --microbatches 2 --schedule 1f1b");
  const Dependencies d = make_dependencies(plan, buffer_hazards(plan));
  CHECK(waits(plan, d, "0 F0") == Names{});
  CHECK(waits(plan, d, "0 F1") == Names{});
  CHECK(waits(plan, d, "0 send F0") == Names{"0 F0"});
  CHECK(waits(plan, d, "1 F0") == Names{"0 send F0"});
  CHECK(waits(plan, d, "1 B0") == Names{});
  CHECK(waits(plan, d, "0 B0") == Names{"1 send B0"});
  CHECK(d.is_awaited[task(plan, "0 F0")]);
  CHECK_FALSE(d.is_awaited[task(plan, "0 B0")]);
}

TEST_CASE("Buffers need no waits of their own under the schedules of the table", "[runtime][dependencies]") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
    for (const std::string transport : {"copy", "nccl"}) {
      for (const int gpus : {1, 2, 3, 4, 8}) {
        for (const int microbatches : {1, 2, 3, 8, 16}) {
          const Plan plan = plan_of("--schedule " + schedule + " --transport " + transport + " --gpus " +
                                    std::to_string(gpus) + " --microbatches " + std::to_string(microbatches));
          INFO(describe(plan.spec));
          CHECK(make_dependencies(plan, buffer_hazards(plan)).added_for_buffers == 0);
        }
      }
    }
  }
}

TEST_CASE("A buffer that would be overwritten is waited for", "[runtime][dependencies]") {
  Plan plan = plan_of("--gpus 2 --microbatches 4 --schedule 1f1b");
  REQUIRE(plan.stages[1].slots == 2);
  plan.stages[1].slots = 1;  // worker 0 may send F1 before worker 1 has done with F0 and B0
  const Dependencies d = make_dependencies(plan, buffer_hazards(plan));
  CHECK(waits(plan, d, "0 send F1") == Names{"0 F1", "1 B0"});
  CHECK(d.added_for_buffers > 0);
}

TEST_CASE("Waits for buffers that nobody can give free are a deadlock", "[runtime][dependencies]") {
  Plan plan = plan_of("--gpus 2 --microbatches 4 --schedule gpipe");
  plan.stages[0].slots = 2;  // F2 needs the buffers of F0, which live until B0, which comes after F3
  CHECK_THROWS_AS(make_dependencies(plan, buffer_hazards(plan)), CannotRun);
}
