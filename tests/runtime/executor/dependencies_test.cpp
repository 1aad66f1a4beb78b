#include "runtime/executor/dependencies.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

Plan plan_of(const std::string& flags) {
  return make_plan(spec("--dim 8 --depth 8 --batch 64 " + flags));
}

/// "0 send F1", "1 F1": stage and name.
TaskId task(const Plan& plan, const std::string& name) {
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& candidate = plan.graph.tasks[t];
    if (std::to_string(candidate.stage) + " " +
            task_name(candidate.kind, candidate.stage, candidate.microbatch, false) ==
        name) {
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

TEST_CASE("Where backwards follow forwards in turn, buffers need no waits of their own", "[runtime][dependencies]") {
  // In the other schedules a stage may be sent an input more than its neighbour's order keeps back: dependencies.hpp.
  const std::set<std::string> without = {"naive", "gpipe", "1f1b", "option-c", "looped-bfs"};
  for (const std::string transport : {"copy", "nccl"}) {
    for (const int gpus : {1, 2, 3, 4, 8}) {
      for (const int microbatches : {1, 2, 3, 8, 16}) {
        for (const std::string& flags : every_schedule(gpus, microbatches)) {
          const Plan plan = make_plan(spec("--dim 8 --depth 16 --batch 96 --transport " + transport + " " + flags));
          INFO(describe(plan.spec));
          check_message_order(plan);
          const std::size_t added = make_dependencies(plan, buffer_hazards(plan)).added_for_buffers;  // and no deadlock
          if (without.contains(plan.spec.schedule)) CHECK(added == 0);
        }
      }
    }
  }
}

TEST_CASE("A buffer that would be overwritten is waited for", "[runtime][dependencies]") {
  Plan plan = plan_of("--gpus 2 --microbatches 4 --schedule 1f1b");
  REQUIRE(plan.stages[1].slots == 2);
  plan.stages[1].slots = 1;
  plan.slots[1] = {0, 0, 0, 0};  // worker 0 may send F1 before worker 1 has done with F0 and B0
  const Dependencies d = make_dependencies(plan, buffer_hazards(plan));
  CHECK(waits(plan, d, "0 send F1") == Names{"0 F1", "1 B0"});
  CHECK(d.added_for_buffers > 0);
}

TEST_CASE("Waits for buffers that nobody can give free are a deadlock", "[runtime][dependencies]") {
  Plan plan = plan_of("--gpus 2 --microbatches 4 --schedule gpipe");
  plan.stages[0].slots = 2;
  plan.slots[0] = {0, 1, 0, 1};  // F2 needs the buffers of F0, which live until B0, which comes after F3
  CHECK_THROWS_AS(make_dependencies(plan, buffer_hazards(plan)), CannotRun);
  CHECK_THROWS_WITH(make_dependencies(plan, buffer_hazards(plan)),
                    ContainsSubstring("worker 0 0F3 waits for worker 0 0B1"));
}

TEST_CASE("A stage that is read in place has its buffers for as long as the one above needs them",
          "[runtime][dependencies]") {
  const Plan plan = plan_of("--gpus 2 --microbatches 8 --schedule zb-v");  // stages 1 and 2 on worker 1
  const std::vector<TaskPair> hazards = buffer_hazards(plan);
  const auto has = [&](const std::string& reader, const std::string& writer) {
    return std::count(hazards.begin(), hazards.end(), TaskPair{task(plan, reader), task(plan, writer)}) > 0;
  };
  const std::vector<std::int32_t>& slots = plan.slots[1];
  const auto next = std::find(slots.begin() + 1, slots.end(), slots[0]);
  REQUIRE(next != slots.end());
  const std::string user = std::to_string(next - slots.begin());
  CHECK(has("1 W0", "1 F" + user));
  CHECK(has("2 W0", "1 F" + user));  // reads the output of stage 1
  CHECK(has("2 W0", "2 I" + user) ==
        (plan.slots[2][0] == plan.slots[2][static_cast<std::size_t>(next - slots.begin())]));
  CHECK(has("1 W0", "2 I" + user));       // writes the gradient of the output of stage 1
  CHECK(has("1 W0", "0 send F" + user));  // writes the input of stage 1
}
