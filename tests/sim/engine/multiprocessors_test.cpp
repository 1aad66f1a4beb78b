// Kernels and collectives that share the multiprocessors of a GPU.
#include "sim/engine/multiprocessors.hpp"

#include <set>

#include "sim/engine/run.hpp"
#include "tests/oracle/longest_path.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMultiprocessors = 132;

/// One GPU pair under ddp: kernels of a forward, of the parts of a backward, the length of an all-reduce.
struct Shared {
  Plan plan;
  std::vector<TaskTimes> times;

  Shared(const std::string& flags, const KernelCost& kernel, const KernelCost& all_reduce)
      : plan(make_plan(spec(flags))) {
    SharedMultiprocessors shared{kMultiprocessors, 0, {}};
    std::vector<TaskCost> costs;
    for (const Work& work : plan.graph.works) {
      const bool collective = is_collective(work.kind);
      const bool compute = is_compute(work.kind);
      shared.kernels.push_back(collective ? std::vector{all_reduce}
                               : compute  ? std::vector{kernel}
                                          : std::vector<KernelCost>{});
      costs.push_back(device_only(collective ? all_reduce.device_ns : compute ? kernel.device_ns : 0));
    }
    times = run_graph(plan.graph, costs, {&shared});
  }

  TaskTimes of(TaskKind kind, std::uint32_t part) const {
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
      const Task& task = plan.graph.tasks[t];
      if (task.kind == kind && task.part == part && task.worker == 0) return times[t];
    }
    return {};
  }
};

/// The collective, and the kernel of a drawing.
constexpr std::uint32_t kCollective = 0, kKernel = 1;
constexpr std::int64_t kLongerThanAnything = 1'000'000'000;

/// When the kernel ends; at `collective_end_ns` the collective does.
std::int64_t end_of_kernel(Multiprocessors& gpu, std::int64_t collective_end_ns) {
  std::set<std::int64_t> ends{collective_end_ns};
  while (true) {
    for (const std::int64_t end : gpu.ends_ns()) ends.insert(end);
    const std::int64_t now = *ends.begin();
    ends.erase(ends.begin());
    if (now == kLongerThanAnything) return now;
    if (now == collective_end_ns) gpu.remove(kCollective, now);
    gpu.advance(now);
    if (gpu.ended() == std::vector{kKernel}) return now;
  }
}

std::int64_t end_beside_collective(std::int64_t blocks, std::int64_t at_once, std::int64_t alone_ns,
                                   std::int64_t collective_end_ns) {
  Multiprocessors gpu(kMultiprocessors);
  gpu.add({.id = kCollective, .blocks = 24, .stays = true}, 0);
  gpu.add({.id = kKernel, .blocks = blocks, .blocks_per_multiprocessor = at_once, .time_ns = alone_ns}, 0);
  return end_of_kernel(gpu, collective_end_ns);
}

}  // namespace

TEST_CASE(
    "a kernel of one wave beside a collective takes two: 20 of 128 blocks wait (measured: 2.46 to 2.57 ms for 1.327)") {
  // backward part 1 starts when part 0 has ended, beside the all-reduce of bucket 0, which has 24 multiprocessors for
  // 1.2 ms:
  // 108 blocks at once, the other 20 when it ends, and these take another 1.327 ms.
  const Shared shared("--strategy ddp --gpus 2 --depth 2 --dim 4096 --batch 8 --bucket-views 1", {0, 1'327'000, 128, 1},
                      {0, 1'200'000, 24});
  const TaskTimes first = shared.of(TaskKind::backward, 0), second = shared.of(TaskKind::backward, 1);
  const TaskTimes reduce = shared.of(TaskKind::all_reduce, 0);
  CHECK(reduce.start_ns == first.end_ns);
  CHECK(reduce.end_ns == reduce.start_ns + 1'200'000);
  CHECK(second.end_ns - second.start_ns == 1'200'000 + 1'327'000);
}

TEST_CASE("128 blocks on 108 free multiprocessors: 20 have two, which share, and the kernel takes twice as long") {
  //   88 multiprocessors  [block ]                 one block alone: 1 ms
  //   20                  [block + block   ]       two together: 2 ms
  //   24                  [collective...
  Multiprocessors gpu(kMultiprocessors);
  gpu.add({.id = kCollective, .blocks = 24, .stays = true}, 0);
  gpu.add({.id = kKernel, .blocks = 128, .blocks_per_multiprocessor = 2, .time_ns = 1'000'000}, 0);
  CHECK(gpu.ends_ns() == std::vector<std::int64_t>{1'000'000, 2'000'000});
  gpu.advance(1'000'000);
  CHECK(gpu.ended().empty());
  gpu.advance(2'000'000);
  CHECK(gpu.ended() == std::vector<std::uint32_t>{kKernel});

  // A collective that ends soon changes nothing: the second blocks have begun beside the first ones and stay there.
  CHECK(end_beside_collective(128, 2, 1'000'000, kLongerThanAnything) == 2'000'000);
  CHECK(end_beside_collective(128, 2, 1'000'000, 100'000) == 2'000'000);
  CHECK(end_beside_collective(128, 16, 1'000'000, 100'000) == 2'000'000);
  // With room for one on each, 20 blocks wait for a multiprocessor: until the collective ends, or the first blocks.
  CHECK(end_beside_collective(128, 1, 1'000'000, 100'000) == 1'100'000);
  CHECK(end_beside_collective(128, 1, 1'000'000, kLongerThanAnything) == 2'000'000);
}

TEST_CASE("as many blocks as multiprocessors are free: each has one for itself, as alone") {
  for (const std::int64_t at_once : {1, 2, 8}) {
    CAPTURE(at_once);
    CHECK(end_beside_collective(1, at_once, 1'000'000, kLongerThanAnything) == 1'000'000);
    CHECK(end_beside_collective(108, at_once, 1'000'000, kLongerThanAnything) == 1'000'000);
    CHECK(end_beside_collective(109, at_once, 1'000'000, kLongerThanAnything) == 2'000'000);
  }
}

TEST_CASE("blocks for which there was no room take the places of those that end, multiprocessor after multiprocessor") {
  // 256 blocks, two at once, alone 1 ms: two on a multiprocessor, .5 ms each. Beside a collective 216 have room, for
  // 1 ms; the other 40 fill 20 of the 108 multiprocessors, for another 1 ms (measured in some calls: 2.62 to 2.69 ms
  // for 1.354).
  CHECK(end_beside_collective(256, 2, 1'000'000, kLongerThanAnything) == 2'000'000);
  // The collective ends at .1 ms: the 40 spread over its 24 multiprocessors, two on 16 of them, for 1 ms.
  CHECK(end_beside_collective(256, 2, 1'000'000, 100'000) == 1'100'000);
  // 228 blocks: 12 spread over these 24 one by one, .5 ms: the first 216 end later.
  CHECK(end_beside_collective(228, 2, 1'000'000, 100'000) == 1'000'000);
  CHECK(end_beside_collective(228, 2, 1'000'000, 600'000) == 1'100'000);
  // 265 blocks alone: 264 for two block lengths, the last one for one; beside a collective 216, then 49.
  CHECK(end_beside_collective(265, 2, 3'000, kLongerThanAnything) == 4'000);
  CHECK(end_beside_collective(217, 2, 2'000, kLongerThanAnything) == 3'000);
}

TEST_CASE("a kernel of thousands of blocks loses multiprocessors, not a whole wave") {
  // 2,112 blocks: 16 waves of 100 us on 132 multiprocessors; on 108, 20.
  CHECK(end_beside_collective(2112, 1, 1'600'000, kLongerThanAnything) == 2'000'000);
  // 16,384 blocks, 16 at once: 8 waves of 16 us, the last one not full; on 108, 10.
  CHECK(end_beside_collective(16384, 16, 128'000, kLongerThanAnything) == 160'000);
}

TEST_CASE("a collective waits for the blocks that hold the multiprocessors, and goes before the next kernel") {
  Multiprocessors gpu(kMultiprocessors);
  gpu.add({.id = 0, .blocks = 264, .blocks_per_multiprocessor = 2, .time_ns = 1000}, 0);
  gpu.add({.id = 1, .blocks = 24, .stays = true}, 10);
  gpu.add({.id = 2, .blocks = 264, .blocks_per_multiprocessor = 2, .time_ns = 1000}, 20);
  CHECK(gpu.took_place().empty());
  gpu.advance(1000);
  CHECK(gpu.ended() == std::vector<std::uint32_t>{0});
  CHECK(gpu.took_place() == std::vector<std::uint32_t>{1});
  gpu.advance(2000);  // 216 of 264 blocks have ended; the other 48 fill 24 multiprocessors
  CHECK(gpu.ended().empty());
  gpu.remove(1, 2500);
  gpu.advance(2999);
  CHECK(gpu.ended().empty());
  gpu.advance(3000);
  CHECK(gpu.ended() == std::vector<std::uint32_t>{2});
}

TEST_CASE("a collective beside kernels that use the memory goes slower while they run") {
  // Layers of 1 ms, all-reduces of 400 us, which take 1.5 times as long beside a layer. Bucket 0: beside the backward
  // of layer 0 to its end, 600 us. Bucket 1: after everything, 400 us.
  KernelCost kernel{0, 1'000'000, 8, 1};
  kernel.slows_collectives = .5;
  const Shared shared("--strategy ddp --gpus 2 --depth 2 --dim 4096 --batch 8 --bucket-views 1", kernel,
                      {0, 400'000, 24});
  const TaskTimes first = shared.of(TaskKind::all_reduce, 0), second = shared.of(TaskKind::all_reduce, 1);
  CHECK(first.end_ns - first.start_ns == 600'000);
  CHECK(second.end_ns - second.start_ns == 400'000);
  // Of an all-reduce of 1 ms, 667 us are done when the kernel ends: 333 us are left.
  const Shared longer("--strategy ddp --gpus 2 --depth 2 --dim 4096 --batch 8 --bucket-views 1", kernel,
                      {0, 1'000'000, 24});
  const TaskTimes reduce = longer.of(TaskKind::all_reduce, 0);
  CHECK(reduce.end_ns - reduce.start_ns == 1'333'333);
}

TEST_CASE("blocks that are not known share nothing, a kernel alone takes its time to the nanosecond") {
  for (const std::int64_t blocks : {0, 1, 131, 132, 133, 264, 396, 397, 1000, 4097}) {
    for (const std::int64_t at_once : {0, 1, 3}) {
      Multiprocessors gpu(kMultiprocessors);
      gpu.add({.id = kKernel, .blocks = blocks, .blocks_per_multiprocessor = at_once, .time_ns = 1'000'003}, 5);
      CAPTURE(blocks, at_once);
      CHECK(end_of_kernel(gpu, kLongerThanAnything) == 1'000'008);
    }
  }
}

TEST_CASE("where nothing is long enough to meet, sharing changes nothing") {
  const std::string flags = "--strategy ddp --gpus 4 --depth 4 --dim 4096 --batch 8 --bucket-views 1";
  const KernelCost kernel{0, 3'000'000, 128, 1}, none{0, 0, 24};
  const Shared shared(flags, kernel, none);
  std::vector<TaskCost> costs;
  for (const Work& work : shared.plan.graph.works)
    costs.push_back(device_only(is_compute(work.kind) ? kernel.device_ns : 0));
  CHECK(shared.times == longest_path_times(shared.plan.graph, costs));
}

TEST_CASE("a message by a kernel holds multiprocessors while it waits for its peer, and waits for them itself") {
  // 132 multiprocessors, kernels of 132 blocks and 1 ms, messages of 16 blocks and 100 us. A forward on the other GPU
  // takes 3 ms, after which it sends.
  //
  //   worker 0  compute  [kernel 1][kernel 2: 116 blocks, then 16: 2 ms]
  //             NCCL     . . . . . [receive: waits for places, then for its sender ....]
  //   worker 1  compute  [kernel 3 ms                ]
  //             NCCL                                  [send]
  TaskGraphBuilder builder;
  Work one, three, message;
  one.rows = 1;
  three.rows = 3;
  message.kind = TaskKind::receive_forward;
  Work send = message;
  send.kind = TaskKind::send_forward;
  send.eager = true;
  const std::uint32_t pair = builder.add_group();
  const auto add = [&](const Work& work, std::int32_t worker, StreamRole role, std::uint32_t group, TaskKind kind) {
    return builder.add_task({builder.add_work(work), stream_of(worker, role, 0), static_cast<std::uint32_t>(worker),
                             group, worker, 0, 0, kind});
  };
  add(one, 0, StreamRole::compute, kNone, TaskKind::forward);
  add(message, 0, StreamRole::receive_forward, pair, TaskKind::receive_forward);
  add(one, 0, StreamRole::compute, kNone, TaskKind::forward);
  const TaskId computed = add(three, 1, StreamRole::compute, kNone, TaskKind::forward);
  const TaskId sent = add(send, 1, StreamRole::send_forward, pair, TaskKind::send_forward);
  builder.add_edge(computed, sent);
  const TaskGraph graph = std::move(builder).build(2, 2);
  SharedMultiprocessors shared{kMultiprocessors, 0, {}};
  std::vector<TaskCost> costs;
  for (const Work& work : graph.works) {
    const bool moves = is_pipeline_transfer(work.kind);
    const std::int64_t ns = moves ? 100'000 : work.rows * 1'000'000;
    shared.kernels.push_back({moves ? KernelCost{0, ns, 16} : KernelCost{0, ns, 132, 1}});
    costs.push_back(device_only(ns));
  }
  CHECK(run_graph(graph, costs, {&shared}) ==
        std::vector<TaskTimes>{
            {0, 1'000'000}, {1'000'000, 3'100'000}, {1'000'000, 3'000'000}, {0, 3'000'000}, {3'000'000, 3'100'000}});
}

TEST_CASE(
    "behind the same computation the next kernel of its stream goes before a message, which has a stream to cross") {
  // 132 multiprocessors, two kernels of 264 blocks and 2 ms (two waves), an eager send of 100 us behind the first: all
  // blocks of the second one go before it.
  TaskGraphBuilder builder;
  Work kernel, send;
  kernel.rows = 1;
  send.kind = TaskKind::send_forward;
  send.eager = true;
  const auto add = [&](const Work& work, StreamRole role, std::uint32_t group, TaskKind kind) {
    return builder.add_task({builder.add_work(work), stream_of(0, role, 0), 0, group, 0, 0, 0, kind});
  };
  const TaskId first = add(kernel, StreamRole::compute, kNone, TaskKind::forward);
  const TaskId sent = add(send, StreamRole::send_forward, builder.add_group(), TaskKind::send_forward);
  add(kernel, StreamRole::compute, kNone, TaskKind::forward);
  builder.add_edge(first, sent);
  const TaskGraph graph = std::move(builder).build(1, 1);
  for (const std::int64_t latency_ns : {0, 2500}) {
    SharedMultiprocessors shared{kMultiprocessors, latency_ns, {}};
    std::vector<TaskCost> costs;
    for (const Work& work : graph.works) {
      const bool moves = is_pipeline_transfer(work.kind);
      const KernelCost cost{0, moves ? 100'000 : 2'000'000, moves ? 16 : 264, 1};
      shared.kernels.push_back({cost});
      costs.push_back(device_only(cost.device_ns));
    }
    const std::vector<TaskTimes> times = run_graph(graph, costs, {&shared});
    CAPTURE(latency_ns);
    CHECK(times[0].end_ns == 2'000'000);
    CHECK(times[1].start_ns == (latency_ns == 0 ? 2'000'000 : 4'000'000));
    CHECK(times[2].start_ns == 2'000'000);
  }
}
