// Hosts that are slower after a pause: the delays of drawn steps, to the nanosecond.
#include "sim/cost/host_pauses.hpp"

#include "sim/engine/host_delays.hpp"
#include "sim/engine/run.hpp"
#include "sim/plan/plan.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

/// Times of a call in us, 10 again and again, and since 1 ms / 100 ms
///   forward    later 20 / 30    after_wait 60 / 160    after_sleep 80 / 180
///   backward   later 40 / 70                           after_sleep 140 / 1070
///   optimizer  later 14 / 18    after_wait 15 / 25
CostProfile profile(Dtype dtype = Dtype::fp32) {
  ProfileBuilder b;
  const auto add = [&](const char* operation, const char* name, const ProfileBuilder::Points& points) {
    MeasuredKey key;
    key.probe = Probe::pause;
    key.implementation = "autograd";
    key.operation = operation;
    key.name = name;
    key.dtype = dtype;
    b.add(key, points);
  };
  for (const char* operation : {"forward", "backward", "optimizer"}) add(operation, "again", {{1, 10}});
  add("forward", "later", {{kMs, 20}, {100 * kMs, 30}});
  add("forward", "after_wait", {{kMs, 60}, {100 * kMs, 160}});
  add("forward", "after_sleep", {{kMs, 80}, {100 * kMs, 180}});
  add("backward", "later", {{kMs, 40}, {100 * kMs, 70}});
  add("backward", "after_sleep", {{kMs, 140}, {100 * kMs, 1070}});
  add("optimizer", "later", {{kMs, 14}, {100 * kMs, 18}});
  add("optimizer", "after_wait", {{kMs, 15}, {100 * kMs, 25}});
  return b.profile;
}

HostPauses pauses(Dtype measured = Dtype::fp32, Dtype wanted = Dtype::fp32) {
  Notices notices;
  return HostPauses(profile(measured), wanted, notices);
}

/// Delay of every task of worker 0 that has one, in order and in ns: "F0 50000 B0 30000 ...". Every task takes its host
/// `issue_ns`, the optimizer 2 ms of the GPU.
std::string drawn(const std::string& flags, std::int64_t issue_ns, std::int64_t step_ns, const HostPauses& pauses) {
  const Plan plan = make_plan(spec(flags));
  std::vector<TaskCost> costs;
  for (const Work& work : plan.graph.works) {
    const std::int64_t host_ns = work.kind == TaskKind::sleep ? work.sleep_ns : issue_ns;
    costs.push_back({work.kind == TaskKind::optimizer ? 2 * kMs : 0, host_ns, 0, host_ns});
  }
  const std::vector<std::int64_t> delays = host_delays_ns(plan.graph, costs, pauses, step_ns);
  std::string text;
  for (std::size_t t = 0; t < delays.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    if (task.worker != 0 || delays[t] == 0) continue;
    text += (text.empty() ? "" : " ") + task_name(task.kind, task.stage, task.microbatch, false) + " " +
            std::to_string(delays[t]);
  }
  return text;
}

const std::string kOneGpu = "--strategy ddp --gpus 1 --depth 2 --dim 64 --batch 8";

}  // namespace

TEST_CASE("a step like the probe's gets back what the probe measured, less the same again and again") {
  // The host issues everything at once and waits the rest of 100 ms.
  CHECK(drawn(kOneGpu, 0, 100 * kMs, pauses()) == "F0 150000 B0 60000 optimizer 8000");
}

TEST_CASE("between measured pauses: a straight line in the logarithms") {
  // B was issued 1 ms and 50 us before: 40 us x 1.05 ^ (log(70 / 40) / log(100)) - 10 us.
  CHECK(drawn(kOneGpu, 0, kMs, pauses()) == "F0 50000 B0 30238 optimizer 4059");
}

TEST_CASE(
    "a host that decides the step never waits: kinds of work alternate, as in the shortest step that was measured") {
  CHECK(drawn(kOneGpu, 100 * kUs, 0, pauses()) == "F0 10000 B0 30000 optimizer 4000");
}

TEST_CASE("after a sleep it is the task behind it that is late, and the forward of the next step only for its age") {
  // The step is 1 ms + 100 ms of sleep: the forward waited 1 ms, and was issued 101 ms ago.
  CHECK(drawn(kOneGpu + " --delay-ms 100", 0, 101 * kMs, pauses()) == "F0 20000 B0 1060000 optimizer 8000");
}

TEST_CASE("a straggler that sleeps after it has waited has slept for both") {
  CHECK(drawn(kOneGpu + " --straggler 0:40", 0, 100 * kMs, pauses()).starts_with("F0 170000 "));
}

TEST_CASE("rounds of accumulation: only the first forward of a step has waited, the others alternate with backwards") {
  CHECK(drawn(kOneGpu + " --accum 3 --no-sync 1", 0, 100 * kMs, pauses()) ==
        // The last forward was issued 30 + 10 us before the end: 99.96 ms ago.
        "F0 149983 B0 60000 F1 10000 B1 30000 F2 10000 B2 30000 optimizer 8000");
}

TEST_CASE("the same right behind the same is what all other probes measure: no delay") {
  // gpipe by one thread: F0 F1 F2, then the loss and all backwards as they are.
  const std::string text = drawn(
      "--gpus 1 --workers one --schedule gpipe --depth 2 --dim 64 --batch 6 --microbatches 3", 0, 100 * kMs, pauses());
  CHECK(text.starts_with("F0 150000 B0 60000 "));
}

TEST_CASE("a profile that lacks a part of the probe: said, and no time") {
  CostProfile some = profile();
  std::erase_if(some.curves, [](const MeasuredCurve& curve) {
    return curve.key.name == "again" && curve.key.operation == "forward";
  });
  Notices notices;
  const HostPauses without(some, Dtype::fp32, notices);
  CHECK(without.delay_ns(TaskKind::forward, kMs, 0, false) == 0);
  CHECK(without.delay_ns(TaskKind::backward, kMs, 0, false) == 30 * kUs);
  REQUIRE(notices.texts().size() == 1);
  CHECK_THAT(notices.texts().front(),
             ContainsSubstring("host after pauses autograd fp32, forward again and later; taken as no time"));
}

TEST_CASE("the Reducer prepares for forwards whose gradients it exchanges") {
  HostPauses all = pauses();
  all.prepares_exchange(7000);
  CHECK(drawn(kOneGpu + " --accum 2 --no-sync 1", 0, 100 * kMs, all) ==
        "F0 149994 B0 60000 F1 17000 B1 30000 optimizer 8000");
}

TEST_CASE("GradScaler's host waits before the optimizer, so little after it") {
  // The optimizer takes the last 2 ms of the step: the host waits for 98, issues it, and waits for 2.
  CHECK(drawn(kOneGpu + " --dtype amp-fp16", 0, 100 * kMs, pauses(Dtype::amp_fp16, Dtype::amp_fp16)) ==
        "F0 20000 B0 60000 optimizer 15000");
}

TEST_CASE("a pause counts where it is at least half of the time since the same was issued") {
  CHECK(pauses().delay_ns(TaskKind::forward, 100 * kMs, 50 * kMs, false) == 150 * kUs);
  CHECK(pauses().delay_ns(TaskKind::forward, 100 * kMs, 50 * kMs, true) == 170 * kUs);
  CHECK(pauses().delay_ns(TaskKind::forward, 100 * kMs, 49 * kMs, true) == 20 * kUs);
  CHECK(pauses().delay_ns(TaskKind::backward, 100 * kMs, 100 * kMs, false) == 60 * kUs);  // no after_wait: later
  CHECK(pauses().delay_ns(TaskKind::forward, 1000 * kMs, 1000 * kMs, false) ==
        150 * kUs);  // the longest that was measured
  CHECK(pauses().delay_ns(TaskKind::all_reduce, kMs, kMs, false) == 0);
}

TEST_CASE(
    "half precisions stand in for each other, which is said, tf32 is fp32 to a host, without a probe there is no "
    "delay") {
  Notices notices;
  CHECK(HostPauses(profile(Dtype::fp32), Dtype::tf32, notices).delay_ns(TaskKind::optimizer, kMs, 0, false) == 4 * kUs);
  CHECK(notices.texts().empty());
  CHECK_FALSE(HostPauses(profile(Dtype::amp_fp16), Dtype::amp_bf16, notices).empty());
  REQUIRE(notices.texts().size() == 1);
  CHECK_THAT(notices.texts().front(), ContainsSubstring("host after pauses autograd amp-bf16; those of amp-fp16"));
  CHECK(HostPauses(ProfileBuilder().profile, Dtype::fp32, notices).empty());
}

TEST_CASE("the engine begins to issue a task so much later, and what the host issues after it") {
  //   host    | F 2 | 7 late | B 2 | ...      a launch takes 2 and starts the kernel; kernels take 1
  const Plan plan = make_plan(spec(kOneGpu));
  std::vector<TaskCost> costs;
  SharedMultiprocessors shared{132, 0, {}};
  for (const Work& work : plan.graph.works) {
    const bool shown = is_compute(work.kind) || work.kind == TaskKind::optimizer;
    costs.push_back(shown ? TaskCost{1, 2, 2, 3} : TaskCost{});
    shared.kernels.push_back(shown ? std::vector{KernelCost{2, 1, 4, 1}} : std::vector<KernelCost>{});
  }
  const auto first_of = [&](TaskKind kind) {
    std::size_t t = 0;
    while (plan.graph.tasks[t].kind != kind) ++t;
    return t;
  };
  const std::size_t forward = first_of(TaskKind::forward), backward = first_of(TaskKind::backward);
  const std::size_t optimizer = first_of(TaskKind::optimizer);
  std::vector<std::int64_t> delays(plan.graph.tasks.size(), 0);
  delays[backward] = 7;
  // As four numbers, and kernel by kernel.
  for (const SharedMultiprocessors* how :
       {static_cast<const SharedMultiprocessors*>(nullptr), static_cast<const SharedMultiprocessors*>(&shared)}) {
    const std::vector<TaskTimes> times = run_graph(plan.graph, costs, {how, delays});
    CHECK(times[forward] == TaskTimes{2, 3});
    CHECK(times[backward] == TaskTimes{11, 12});
    CHECK(times[optimizer] == TaskTimes{13, 14});
  }
}
