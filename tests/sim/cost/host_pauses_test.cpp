// Hosts that are slower after a pause: the delays of drawn steps, to the nanosecond.
#include "sim/cost/host_pauses.hpp"

#include "sim/engine/run.hpp"
#include "sim/plan/plan.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

/// Delays in us:            1 ms   100 ms
///   forward   later          10       20      after_wait 50, 150   after_sleep 70, 170
///   backward  later          30       60      after_sleep 130, 1060
///   optimizer later           4        8
CostProfile profile(const std::string& dtype = "fp32") {
  ProfileBuilder b;
  const auto add = [&](const char* operation, const char* name, double us, double us_100) {
    MeasuredKey key;
    key.probe = Probe::pause;
    key.implementation = "autograd";
    key.operation = operation;
    key.name = name;
    key.dtype = dtype;
    b.add(key, {{kMs, us}, {100 * kMs, us_100}});
  };
  add("forward", "later", 10, 20);
  add("forward", "after_wait", 50, 150);
  add("forward", "after_sleep", 70, 170);
  add("backward", "later", 30, 60);
  add("backward", "after_sleep", 130, 1060);
  add("optimizer", "later", 4, 8);
  return b.profile;
}

/// Delay of every task of worker 0 that has one, in order: "F0 50 B0 30 ...", in us.
std::string drawn(const std::string& flags, std::int64_t issue_ns, std::int64_t step_ns, const CostProfile& measured) {
  const Plan plan = make_plan(spec(flags));
  std::vector<TaskCost> costs;
  for (const Work& work : plan.graph.works) {
    const std::int64_t host_ns = work.kind == TaskKind::sleep ? work.sleep_ns : issue_ns;
    costs.push_back({0, host_ns, 0, host_ns});
  }
  const std::vector<std::int64_t> delays = HostPauses(measured, "fp32").delays_ns(plan.graph, costs, step_ns);
  std::string text;
  for (std::size_t t = 0; t < delays.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    if (task.worker != 0 || delays[t] == 0) continue;
    text += (text.empty() ? "" : " ") + task_name(task.kind, task.stage, task.microbatch, false) + " " + std::to_string(delays[t] / kUs);
  }
  return text;
}

const std::string kOneGpu = "--strategy ddp --gpus 1 --depth 2 --dim 64 --batch 8";

}  // namespace

TEST_CASE("a host that waits for its GPU begins the next forward late; backward and optimizer were issued long ago") {
  // The host issues nothing for any time: it waits the whole 100 ms.
  CHECK(drawn(kOneGpu, 0, 100 * kMs, profile()) == "F0 150 B0 60 optimizer 8");
  // Its last forward ended 1 ms before this one begins; it waited as long.
  CHECK(drawn(kOneGpu, 0, kMs, profile()) == "F0 50 B0 30 optimizer 4");
}

TEST_CASE("a host that decides the step never waits: all that is left is that kinds of work alternate") {
  // Four tasks of 100 us at least: a step of 1 ms would leave a wait; 0 asks for none.
  const std::string text = drawn(kOneGpu, 250 * kUs, 0, profile());
  CHECK(text.starts_with("F0 "));
  CHECK(text.find("F0 50") == std::string::npos);
}

TEST_CASE("after a sleep it is the task behind it that is late, and the forward of the next step only for its age") {
  // The step is 1 ms + 100 ms of sleep: the forward waited 1 ms, and was issued 101 ms ago.
  const std::string text = drawn(kOneGpu + " --delay-ms 100", 0, 101 * kMs, profile());
  CHECK(text == "F0 60 B0 1060 optimizer 8");  // 20 + 50 - 10; longer than measured is as long as measured
}

TEST_CASE("rounds of accumulation: only the first forward of a step has waited") {
  CHECK(drawn(kOneGpu + " --accum 3 --no-sync 1", 0, 100 * kMs, profile()) == "F0 150 B0 60 optimizer 8");
}

TEST_CASE("pauses shorter than measured count in proportion") {
  const HostPauses pauses(profile(), "fp32");
  CHECK(pauses.delay_ns(TaskKind::forward, 0, 0, false) == 0);
  CHECK(pauses.delay_ns(TaskKind::forward, kMs / 2, 0, false) == 5 * kUs);
  CHECK(pauses.delay_ns(TaskKind::forward, kMs / 2, kMs / 2, false) == 25 * kUs);
  CHECK(pauses.delay_ns(TaskKind::all_reduce, kMs, kMs, false) == 0);
}

TEST_CASE("half precisions stand in for each other, tf32 is fp32 to a host, and without a probe there is no delay") {
  CHECK_FALSE(HostPauses(profile("amp-fp16"), "amp-bf16").empty());
  CHECK(HostPauses(profile("fp32"), "tf32").delay_ns(TaskKind::optimizer, kMs, 0, false) == 4 * kUs);
  CHECK(HostPauses(ProfileBuilder().profile, "fp32").empty());
}

TEST_CASE("the engine begins to issue a task so much later, and what the host issues after it") {
  //   host     | 7 F 2 | B 2 | O 2 |       a launch needs nothing; the GPU: 1 each
  const Plan plan = make_plan(spec(kOneGpu));
  std::vector<TaskCost> costs;
  for (const Work& work : plan.graph.works) {
    const bool shown = is_compute(work.kind) || work.kind == TaskKind::optimizer;
    costs.push_back(shown ? TaskCost{1, 2, 2, 3} : TaskCost{});
  }
  std::vector<std::int64_t> delays(plan.graph.tasks.size(), 0);
  delays.front() = 7;
  const std::vector<TaskTimes> usual = run(plan.graph, costs), late = run(plan.graph, costs, nullptr, delays);
  for (std::size_t t = 0; t < usual.size(); ++t) {
    CHECK(late[t].start_ns == usual[t].start_ns + 7);
    CHECK(late[t].end_ns == usual[t].end_ns + 7);
  }
}
