#include "sim/engine/run.hpp"
#include "sim/engine/repeated_runs.hpp"

#include <map>
#include <random>

#include "sim/io/error.hpp"
#include "sim/spec/schedule.hpp"
#include "tests/oracle/longest_path.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMs = 1'000'000;

std::string flags(const std::string& schedule, int gpus, int microbatches,
                  const std::string& costs = "--tf 1 --tb 2 --tcomm 0") {
  return "--gpus " + std::to_string(gpus) + " --microbatches " + std::to_string(microbatches) + " --schedule " +
         schedule + " " + costs;
}

std::int64_t makespan_ms(const std::string& all) {
  return simulate(all).timeline.step_ns / kMs;
}

/// The slow, obvious reference: time goes on in steps of 1 ms, every worker does its next operation once what it needs
/// is there. Forward takes `tf`, backward `tb` steps.
int reference_makespan(const Schedule& schedule, int gpus, int microbatches, int tf, int tb) {
  std::vector<std::vector<Operation>> left;
  for (int w = 0; w < gpus; ++w) left.push_back(schedule.order({gpus, 1, microbatches}, w));
  std::map<std::tuple<bool, int, int>, int> done_at;
  std::vector<int> free_at(gpus, 0);
  std::vector<std::size_t> next(gpus, 0);
  int last = 0;
  for (int now = 0; now < 100000; ++now) {
    bool all = true;
    for (int w = 0; w < gpus; ++w) {
      if (next[w] == left[w].size()) continue;
      all = false;
      if (free_at[w] > now) continue;
      const Operation& op = left[w][next[w]];
      const bool forward = op.kind == OperationKind::forward;
      const int source = forward ? op.stage - 1 : op.stage + 1;
      if (source >= 0 && source < gpus) {
        const auto found = done_at.find({forward, source, op.microbatch});
        if (found == done_at.end() || found->second > now) continue;
      }
      free_at[w] = now + (forward ? tf : tb);
      done_at[{forward, op.stage, op.microbatch}] = free_at[w];
      last = std::max(last, free_at[w]);
      ++next[w];
    }
    if (all) return last;
  }
  return -1;
}

}  // namespace

TEST_CASE("fewer micro-batches than stages: (M + 7) x 3, never a hang") {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const int m : {1, 2, 4, 7, 8}) CHECK(makespan_ms(flags(schedule, 8, m)) == (m + 7) * 3);
  }
}

TEST_CASE("one micro-batch: 12 ms on four GPUs under every schedule with whole backwards and one chunk") {
  std::size_t count = 0;
  for (const Schedule& schedule : schedules()) {
    if (schedule.splits_backward || schedule.default_chunks > 1) continue;
    ++count;
    CHECK(makespan_ms(flags(std::string(schedule.name), 4, 1)) == 12);
  }
  CHECK(count >= 4);
}

TEST_CASE("M = P: 9, 21, 45, and no deadlock under rendezvous") {
  for (const char* p2p : {"eager", "rendezvous"}) {
    for (const auto& [p, ms] : {std::pair{2, 9}, {4, 21}, {8, 45}}) {
      CHECK(makespan_ms(flags("1f1b", p, p, std::string("--tf 1 --tb 2 --tcomm 0 --p2p ") + p2p)) == ms);
    }
  }
}

TEST_CASE("1F1B and GPipe take the same 78 steps on 8 GPUs with 32 micro-batches") {
  CHECK(makespan_ms(flags("gpipe", 8, 32, "--tf 1 --tb 1")) == 78);
  CHECK(makespan_ms(flags("1f1b", 8, 32, "--tf 1 --tb 1")) == 78);
}

TEST_CASE("one GPU: M x (tf + tb) under every strategy and schedule") {
  for (const char* how : {"--strategy single", "--strategy mp", "--strategy pp", "--schedule gpipe", "--schedule 1f1b",
                          "--schedule naive", "--schedule gpipe --workers one"}) {
    CHECK(makespan_ms(std::string("--gpus 1 --microbatches 5 --tf 1 --tb 2 ") + how) == 15);
  }
}

TEST_CASE("start of the fill: F0 on stage s starts at s x tf") {
  const Simulated s = simulate(flags("gpipe", 4, 8));
  for (const Span& span : s.timeline.spans) {
    if (span.kind == TaskKind::forward && span.microbatch == 0) CHECK(span.start_ns == span.stage * kMs);
  }
}

TEST_CASE("with communication 1F1B is slower than GPipe: published costs, 8 GPUs, 24 micro-batches") {
  const std::string costs = "--tf 18.522 --tb 18.086 --tw 9.337 --tcomm 0.601";
  CHECK(simulate(flags("1f1b", 8, 24, costs)).timeline.step_ns == 1456749000);
  CHECK(simulate(flags("gpipe", 8, 24, costs)).timeline.step_ns == 1432709000);
}

TEST_CASE("makespan of 1F1B with transfers: the closed form, to the nanosecond") {
  // (M+P-1)(F+B) + 2X[(P-1) + (M-2) - floor((M-2)/P)] for M >= P: each full round of P micro-batches hides one
  // transfer.
  for (const auto& [p, m] : {std::pair{2, 8}, {4, 16}, {8, 32}, {16, 64}}) {
    const std::int64_t x = 177772;
    const std::int64_t expected = (m + p - 1) * 3 * kMs + 2 * x * ((p - 1) + (m - 2) - (m - 2) / p);
    CHECK(simulate(flags("1f1b", p, m, "--tf 1 --tb 2 --tcomm 0.177772")).timeline.step_ns == expected);
  }
}

TEST_CASE("every schedule, P and M up to 16: the longest path agrees with the engine") {
  for (const Schedule& schedule : schedules()) {
    for (int p = 1; p <= 16; p += 3) {
      for (int m = 1; m <= 16; m += 5) {
        if (!schedule.takes({p, schedule.default_chunks, m})) continue;
        const Simulated s = simulate(flags(std::string(schedule.name), p, m));
        INFO(schedule.name << " P " << p << " M " << m);
        CHECK(longest_path_times(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic)) == s.times);
      }
    }
  }
}

TEST_CASE(
    "naive, gpipe, 1f1b, P and M up to 16: closed form, obvious reference, and longest path agree with the engine") {
  for (const char* name : {"naive", "gpipe", "1f1b"}) {
    const Schedule& schedule = *find_schedule(name);
    for (int p = 1; p <= 16; ++p) {
      for (int m = 1; m <= 16; ++m) {
        const Simulated s = simulate(flags(std::string(schedule.name), p, m));
        const int closed = schedule.name == "naive" ? 3 * p * m : 3 * (m + p - 1);
        INFO(schedule.name << " P " << p << " M " << m);
        CHECK(s.timeline.step_ns == closed * kMs);
        CHECK(reference_makespan(schedule, p, m, 1, 2) == closed);
        CHECK(reference_makespan(schedule, p, m, 3, 1) ==
              makespan_ms(flags(std::string(schedule.name), p, m, "--tf 3 --tb 1")));
        CHECK(longest_path_times(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic)) == s.times);
      }
    }
  }
}

TEST_CASE("engine and longest path agree for random costs, hosts, transports") {
  std::mt19937_64 random(7);
  for (const char* how : {"--transport copy", "--transport nccl", "--workers one"}) {
    for (const char* schedule : {"naive", "gpipe", "1f1b"}) {
      if (std::string(how) == "--workers one" && std::string(schedule) == "1f1b") continue;  // refused
      for (int p = 1; p <= 5; ++p) {
        const Plan plan = make_plan(
            spec("--batch 30 --gpus " + std::to_string(p) + " --microbatches 6 --schedule " + schedule + " " + how));
        std::vector<TaskCost> costs(plan.graph.works.size());
        for (TaskCost& c : costs) {
          std::vector<std::int64_t> issue(1 + random() % 4), device(issue.size());
          for (auto& h : issue) h = static_cast<std::int64_t>(random() % 50);
          for (auto& d : device) d = static_cast<std::int64_t>(random() % 50);
          c = collapse(issue, device);
        }
        CHECK(run_graph(plan.graph, costs) == longest_path_times(plan.graph, costs));
        std::vector<std::int64_t> delays(plan.graph.tasks.size());
        for (auto& delay : delays) delay = static_cast<std::int64_t>(random() % 30);
        CHECK(run_graph(plan.graph, costs, {nullptr, delays}) == longest_path_times(plan.graph, costs, delays));
      }
    }
  }
}

namespace {

/// Any graph whose edges lead to later tasks: some tasks without a stream, some in groups, several edges from a task.
/// `eager`: some tasks of groups end by themselves.
TaskGraph random_graph(std::mt19937_64& random, bool eager = false) {
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t workers = 1 + below(4), hosts = 1 + below(workers), tasks = 1 + below(40), groups = below(6);
  TaskGraphBuilder builder;
  for (std::uint32_t g = 0; g < groups; ++g) builder.add_group();
  for (TaskId task = 0; task < tasks; ++task) {
    const std::uint32_t worker = below(workers), group = groups > 0 && below(3) == 0 ? below(groups) : kNone;
    Work work;
    work.rows = below(8);
    work.kind = below(2) == 0 ? TaskKind::forward : TaskKind::send_forward;
    work.eager = eager && below(2) == 0;
    builder.add_task({builder.add_work(work), below(5) == 0 ? kNone : worker * kStreamsPerWorker + below(3),
                      worker % hosts, group, static_cast<std::int32_t>(worker), 0, 0, work.kind});
    for (TaskId before = 0; before < task; ++before) {
      if (below(tasks) < 2) builder.add_edge(before, task);
    }
  }
  return std::move(builder).build(workers, hosts);
}

TaskCost random_cost(std::mt19937_64& random, bool with_host) {
  const auto device = static_cast<std::int64_t>(random() % 50);
  if (!with_host) return device_only(device);
  const std::int64_t first = static_cast<std::int64_t>(random() % 20),
                     issue = first + static_cast<std::int64_t>(random() % 20);
  return {device, issue, first, std::max(issue, first + device) + static_cast<std::int64_t>(random() % 20)};
}

/// Empty: it cannot run.
template <typename Run>
std::vector<TaskTimes> times_or_deadlock(Run run) {
  try {
    return run();
  } catch (const CannotRun&) {
    return {};
  }
}

}  // namespace

TEST_CASE("random graphs: the engine's times are the longest paths, to the nanosecond, and deadlocks the same") {
  std::mt19937_64 random(11);
  int deadlocks = 0;
  for (int i = 0; i < 3000; ++i) {
    const TaskGraph graph = random_graph(random, i % 2 == 0);
    const bool with_host = random() % 2 == 0, delayed = random() % 2 == 0;
    std::vector<TaskCost> costs;
    for (std::size_t w = 0; w < graph.works.size(); ++w) costs.push_back(random_cost(random, with_host));
    std::vector<std::int64_t> delays;
    for (TaskId t = 0; delayed && t < graph.tasks.size(); ++t)
      delays.push_back(static_cast<std::int64_t>(random() % 30));
    const auto expected = times_or_deadlock([&] { return longest_path_times(graph, costs, delays); });
    CAPTURE(i);
    CHECK(times_or_deadlock([&] { return run_graph(graph, costs, {nullptr, delays}); }) == expected);
    deadlocks += expected.empty();
  }
  CHECK(deadlocks > 30);
  CHECK(deadlocks < 2000);
}

TEST_CASE("a second run in the same pass is as long as that run alone") {
  std::mt19937_64 random(12);
  for (int i = 0; i < 1000; ++i) {
    const TaskGraph graph = random_graph(random);
    std::vector<TaskCost> costs, second_costs;
    LengthOfRun second;
    for (std::size_t w = 0; w < graph.works.size(); ++w) {
      costs.push_back(random_cost(random, i % 2 == 0));
      second_costs.push_back(random_cost(random, false));
      second.device_ns.push_back(second_costs.back().device_ns);
    }
    const auto expected = times_or_deadlock([&] { return longest_path_times(graph, costs); });
    if (expected.empty()) continue;
    Timeline timeline;
    second.by_worker = true;
    CAPTURE(i);
    CHECK(run_graph(graph, costs, {}, timeline.spans, &second) == make_timeline(graph, 1, expected).step_ns);
    CHECK(timeline.spans == make_timeline(graph, 1, expected).spans);
    const Timeline alone = make_timeline(graph, 1, longest_path_times(graph, second_costs));
    CHECK(second.last_end_ns == alone.step_ns);
    CHECK(second.longest_worker_ns == longest_worker_ns(alone));
  }
}

TEST_CASE("repeated runs of random graphs: the times, the second run and the deadlocks of single ones") {
  std::mt19937_64 random(13);
  for (int i = 0; i < 1000; ++i) {
    const TaskGraph graph = random_graph(random);
    std::optional<RepeatedRuns> runs;
    try {
      runs.emplace(graph);
    } catch (const CannotRun&) {
    }
    for (const bool with_host : {false, true}) {
      std::vector<TaskCost> costs;
      LengthOfRun second, repeated;
      for (std::size_t w = 0; w < graph.works.size(); ++w) {
        costs.push_back(random_cost(random, with_host));
        second.device_ns.push_back(random_cost(random, false).device_ns);
      }
      repeated.device_ns = second.device_ns;
      second.by_worker = repeated.by_worker = i % 3 > 0;
      const std::vector<TaskTimes> none(graph.tasks.size());
      Timeline expected = make_timeline(graph, 1, none), timeline = expected;
      CAPTURE(i, with_host);
      try {
        expected.step_ns = run_graph(graph, costs, {}, expected.spans, &second);
      } catch (const CannotRun& deadlock) {
        if (runs) CHECK_THROWS_WITH(runs->run(graph, costs, timeline.spans, &repeated), deadlock.what());
        continue;
      }
      REQUIRE(runs);
      CHECK(runs->run(graph, costs, timeline.spans, &repeated) == expected.step_ns);
      CHECK(timeline.spans == expected.spans);
      CHECK(repeated.last_end_ns == second.last_end_ns);
      CHECK(repeated.longest_worker_ns == second.longest_worker_ns);
      CHECK(runs->run(graph, costs, timeline.spans) == expected.step_ns);
    }
  }
}

TEST_CASE("a host that issues slowly holds the device back") {
  // host    |issue F |issue B |          forward: 2 launches of 10, each kernel 3: starts at 10, ends at 23
  // device  |   [F    F]  [B   B]
  const Plan plan = make_plan(spec("--batch 4 --microbatches 1"));
  std::vector<TaskCost> costs(plan.graph.works.size());
  for (std::size_t w = 0; w < costs.size(); ++w) {
    const bool optimizer = plan.graph.works[w].kind == TaskKind::optimizer;
    costs[w] = optimizer ? TaskCost{} : collapse(std::vector<std::int64_t>{10, 10}, std::vector<std::int64_t>{3, 3});
  }
  const std::vector<TaskTimes> times = run_graph(plan.graph, costs);
  CHECK(times[0] == TaskTimes{10, 23});
  CHECK(times[1] == TaskTimes{30, 43});
}

TEST_CASE("tasks of a group start when ready and end together") {
  // worker 0  [work 5][send       ]        send ready at 5, receive at 9, transfer 4
  // worker 1  [work     9][receive]
  TaskGraphBuilder builder;
  Work short_work, long_work, transfer;
  short_work.rows = 1;
  long_work.rows = 2;
  transfer.rows = 3;
  const std::uint32_t group = builder.add_group();
  const auto add = [&](const Work& work, std::uint32_t worker, std::uint32_t in_group, TaskKind kind) {
    return builder.add_task({builder.add_work(work), worker * kStreamsPerWorker, worker, in_group,
                             static_cast<std::int32_t>(worker), 0, 0, kind});
  };
  add(short_work, 0, kNone, TaskKind::forward);
  add(transfer, 0, group, TaskKind::send_forward);
  add(long_work, 1, kNone, TaskKind::forward);
  add(transfer, 1, group, TaskKind::receive_forward);
  const TaskGraph graph = std::move(builder).build(2, 2);
  const std::vector<TaskCost> costs = {device_only(5), device_only(4), device_only(9)};
  CHECK(run_graph(graph, costs) == std::vector<TaskTimes>{{0, 5}, {5, 13}, {0, 9}, {9, 13}});
}

TEST_CASE("an eager send ends by itself, and its receive one duration after both were ready") {
  // worker 0  [work 5][send 4][work 5]               worker 0 goes on at 9
  // worker 1  [work       9  ][recv 4]               the receive is ready at 9: ends at 13
  // worker 2  [receive ........... 4 ]               of a message that is sent when worker 0 has done more, at 14
  TaskGraphBuilder builder;
  Work five, nine, send, receive;
  five.rows = 1;
  nine.rows = 2;
  send.rows = receive.rows = 3;
  send.eager = true;
  const auto add = [&](const Work& work, std::uint32_t worker, std::uint32_t group, TaskKind kind) {
    return builder.add_task({builder.add_work(work), worker * kStreamsPerWorker, worker, group,
                             static_cast<std::int32_t>(worker), 0, 0, kind});
  };
  const std::uint32_t first = builder.add_group(), second = builder.add_group();
  add(five, 0, kNone, TaskKind::forward);
  add(send, 0, first, TaskKind::send_forward);
  add(five, 0, kNone, TaskKind::forward);
  add(send, 0, second, TaskKind::send_forward);
  add(nine, 1, kNone, TaskKind::forward);
  add(receive, 1, first, TaskKind::receive_forward);
  add(receive, 2, second, TaskKind::receive_forward);
  const TaskGraph graph = std::move(builder).build(3, 3);
  std::vector<TaskCost> costs(graph.works.size());
  for (std::size_t w = 0; w < costs.size(); ++w) costs[w] = device_only(std::array{0, 5, 9, 4}[graph.works[w].rows]);
  const std::vector<TaskTimes> expected = {{0, 5}, {5, 9}, {9, 14}, {14, 18}, {0, 9}, {9, 13}, {0, 18}};
  CHECK(run_graph(graph, costs) == expected);
  CHECK(longest_path_times(graph, costs) == expected);
  // The same where kernels share multiprocessors, of which the messages hold none.
  const SharedMultiprocessors shared{132, 0, std::vector<std::vector<KernelCost>>(graph.works.size())};
  CHECK(run_graph(graph, costs, {&shared}) == expected);
}

TEST_CASE("a deadlock is named, task by task") {
  // worker 0: send A, send B.   worker 1: receive B, receive A.   Each side of a pair waits for the other.
  TaskGraphBuilder builder;
  const std::uint32_t a = builder.add_group(), b = builder.add_group();
  const auto add = [&](std::uint32_t worker, std::uint32_t group, TaskKind kind, std::int32_t microbatch) {
    return builder.add_task({builder.add_work({}), worker * kStreamsPerWorker, worker, group,
                             static_cast<std::int32_t>(worker), 0, microbatch, kind});
  };
  add(0, a, TaskKind::send_forward, 1);
  add(0, b, TaskKind::send_forward, 2);
  add(1, b, TaskKind::receive_forward, 2);
  add(1, a, TaskKind::receive_forward, 1);
  const TaskGraph graph = std::move(builder).build(2, 2);
  const std::vector<TaskCost> costs(graph.works.size(), device_only(1));
  CHECK_THROWS_AS(run_graph(graph, costs), CannotRun);
  CHECK_THROWS_WITH(run_graph(graph, costs), ContainsSubstring("deadlock") && ContainsSubstring("worker 0 0SEND_F2") &&
                                                 ContainsSubstring("worker 1 0RECV_F1"));
  CHECK_THROWS_AS(longest_path_times(graph, costs), CannotRun);
}

TEST_CASE("the same input gives the same times, twenty times") {
  const auto once = simulate(flags("1f1b", 7, 13, "--tf 1.1 --tb 2.3 --tcomm 0.1")).times;
  for (int i = 0; i < 20; ++i) CHECK(simulate(flags("1f1b", 7, 13, "--tf 1.1 --tb 2.3 --tcomm 0.1")).times == once);
}
