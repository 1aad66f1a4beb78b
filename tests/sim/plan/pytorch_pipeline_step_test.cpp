#include "sim/plan/pytorch_pipeline_step.hpp"

#include "sim/io/error.hpp"
#include "tests/oracle/longest_path.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

const std::string kTimes = " --tf 1 --tb 2 --tcomm 0";

std::string error_of(const std::string& flags) {
  try {
    make_plan(spec(flags));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a process of PyTorch's pipeline: its tasks in the order in which Python issues them") {
  const std::string gpipe = "--program pytorch --gpus 2 --microbatches 2 --depth 2 --batch 8 --schedule gpipe";
  CHECK(tasks_of(gpipe, 0) == "F0 | send F0 | F1 | send F1 | receive B0 | B0 | receive B1 | B1 | optimizer");
  CHECK(tasks_of(gpipe, 1) == "receive F0 | F0 | receive F1 | F1 | B0 | send B0 | B1 | send B1 | optimizer");
  CHECK(
      tasks_of(gpipe + " --accum 2", 1) ==
      "receive F0 | F0 | receive F1 | F1 | B0 | send B0 | B1 | send B1 | receive F2 | F2 | receive F3 | F3 | B2 | send "
      "B2 | B3 | send B3 | optimizer");
}

TEST_CASE("a receive that is posted early holds up what is behind it on the NCCL stream") {
  // looped-bfs, two chunks, one micro-batch, forward 1, backward 2, no time for messages: no process can compute ahead.
  CHECK(step_ms("--program pytorch --gpus 2 --microbatches 1 --depth 4 --schedule looped-bfs" + kTimes) == 12);
  // 1F1B, three stages, three micro-batches: pdl-run's takes (M + P - 1) x 3 = 15, and so does PyTorch's where messages
  // take no time; each ms of a message comes upon the path of fill, turn and drain.
  CHECK(step_ms("--program pytorch --gpus 3 --microbatches 3 --depth 3 --schedule 1f1b" + kTimes) == 15);
  CHECK(step_ms("--program pytorch --gpus 2 --microbatches 1 --depth 2 --schedule gpipe --tf 1 --tb 2 --tcomm 1") == 8);
}

TEST_CASE(
    "messages wait for all computation that was issued before them, and computation for what it waits for alone") {
  // Process 0 of gpipe, forward 1, message 5 each: F1 runs beside the first message, B0 waits for both.
  //   compute   [F0][F1]
  //   NCCL          [send F0  5  ][send F1  5  ][receive B0 ...
  const Simulated s =
      simulate("--program pytorch --gpus 2 --microbatches 2 --depth 2 --schedule gpipe --tf 1 --tb 2 --tcomm 5");
  const auto of = [&](std::int32_t worker, TaskKind kind, std::int32_t microbatch) {
    for (TaskId t = 0; t < s.plan.graph.tasks.size(); ++t) {
      const Task& task = s.plan.graph.tasks[t];
      if (task.worker == worker && task.kind == kind && task.microbatch == microbatch)
        return std::pair{s.times[t].start_ns / 1'000'000, s.times[t].end_ns / 1'000'000};
    }
    return std::pair<std::int64_t, std::int64_t>{-1, -1};
  };
  using Times = std::pair<std::int64_t, std::int64_t>;
  CHECK(of(0, TaskKind::forward, 1) == Times{1, 2});
  CHECK(of(0, TaskKind::send_forward, 0) == Times{1, 6});
  CHECK(of(1, TaskKind::forward, 0) == Times{6, 7});
  CHECK(of(1, TaskKind::receive_forward, 1) == Times{7, 12});  // posted behind F0
  CHECK(of(0, TaskKind::send_forward, 1) == Times{6, 12});
  CHECK(of(1, TaskKind::backward, 0) == Times{13, 15});
  CHECK(of(0, TaskKind::backward, 0) == Times{20, 22});
  CHECK(longest_path_times(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic)) == s.times);
}

TEST_CASE("sends end by themselves while NCCL's buffers take the message") {
  CHECK(blocks_of_message(2) == 16);
  CHECK(blocks_of_message(3) == 8);
  CHECK(blocks_of_message(4) == 8);
  CHECK(blocks_of_message(1000) == 1);
  CHECK(eager_message_bytes(2) == std::int64_t{64} << 20);
  const auto is_eager = [](const std::string& flags) {
    const Plan plan =
        make_plan(spec("--program pytorch --gpus 2 --depth 2 --microbatches 2 --schedule gpipe " + flags));
    int eager = 0, sends = 0;
    for (const Work& work : plan.graph.works) {
      sends += is_send(work.kind);
      eager += work.eager;
      CHECK((!work.eager || is_send(work.kind)));
    }
    CHECK((eager == 0 || eager == sends));
    return eager > 0;
  };
  CHECK(is_eager("--dim 8192 --batch 4096"));        // 64 MiB
  CHECK_FALSE(is_eager("--dim 8192 --batch 4100"));  // a little more
  CHECK_FALSE(is_eager("--dim 64 --batch 8 --transport gloo"));
  CHECK_FALSE(is_eager("--dim 64 --batch 8 --tf 1 --tb 2"));
}

TEST_CASE("every schedule of PyTorch finishes, with textbook times and messages that wait for each other") {
  for (const Schedule& schedule : schedules()) {
    if (schedule.pytorch_class.empty()) continue;
    for (int gpus = 1; gpus <= 5; ++gpus) {
      for (int microbatches = gpus; microbatches <= 12; microbatches += 3) {
        if (!schedule.takes({gpus, schedule.default_chunks, microbatches})) continue;
        if (schedule.name == "1f1b" && microbatches < gpus) continue;
        const std::string flags = "--gpus " + std::to_string(gpus) + " --microbatches " + std::to_string(microbatches) +
                                  " --depth 20 --schedule " + std::string(schedule.name) +
                                  " --tf 1 --tb 2 --tcomm 0.25";
        CAPTURE(flags);
        // As long as pdl-run's, or longer: it has the same order, and waits for more.
        CHECK(step_ms("--program pytorch " + flags) >= step_ms(flags));
      }
    }
  }
}

TEST_CASE("the same sums in both programs: operations, messages, bytes") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "looped-bfs"}) {
    const std::string flags =
        std::string("--gpus 4 --microbatches 4 --depth 8 --dim 64 --batch 32 --schedule ") + schedule;
    const Plan ours = make_plan(spec(flags + " --transport nccl")),
               theirs = make_plan(spec("--program pytorch " + flags));
    const auto sums = [](const Plan& plan) {
      std::map<TaskKind, std::pair<std::int64_t, std::int64_t>> by_kind;
      for (const Task& task : plan.graph.tasks) {
        auto& [count, bytes] = by_kind[task.kind];
        ++count;
        bytes += plan.graph.works[task.work].bytes;
      }
      return by_kind;
    };
    CAPTURE(schedule);
    CHECK(sums(ours) == sums(theirs));
  }
}

TEST_CASE("what torch.distributed.pipelining has not is refused") {
  const std::string base = "--program pytorch --gpus 4 --depth 8 --dim 64 --batch 32 ";
  CHECK_THAT(error_of(base + "--schedule zb-h1"),
             ContainsSubstring("--schedule: found schedule zb-h1 with program pytorch, expected one of "
                               "torch.distributed.pipelining, gpipe"));
  CHECK_THAT(error_of(base + "--schedule auto"), ContainsSubstring("schedule auto with program pytorch"));
  CHECK_THAT(error_of(base + "--schedule gpipe --workers thread"), ContainsSubstring("expected process"));
  CHECK_THAT(error_of(base + "--schedule zb-v --dp 2"),
             ContainsSubstring("schedule zb-v with 2 replicas with program pytorch, expected one with whole backwards: "
                               "DDP does not average what a split one makes"));
  CHECK_THAT(error_of(base + "--schedule gpipe --dp 2 --accum 2 --no-sync 1"),
             ContainsSubstring("--no-sync: found 1 for replicas of a pipeline with program pytorch"));
  CHECK_THAT(error_of(base + "--schedule gpipe --accum 2 --scale-grads 1"),
             ContainsSubstring("gradients scaled in each of 2 accumulation steps"));
  CHECK_THAT(error_of("--gpus 4 --scale-grads 1"), ContainsSubstring("scale-grads 1 with program pdl"));
  CHECK_THAT(error_of(base + "--schedule gpipe --delay-ms 1"), ContainsSubstring("--delay-ms: found a pipeline of"));
  CHECK_THAT(error_of(base + "--schedule gpipe --straggler 1:5"),
             ContainsSubstring("--straggler: found a pipeline of"));
  CHECK(error_of("--program pytorch --gpus 2 --strategy ddp --delay-ms 1").empty());
  CHECK_THAT(error_of(base + "--schedule gpipe --transport copy --workers process"), ContainsSubstring("nccl"));
  CHECK_THAT(error_of(base + "--schedule 1f1b --microbatches 2"),
             ContainsSubstring("found 2 micro-batches of 1f1b with program pytorch, expected at least one for each of "
                               "the 4 stages"));
  CHECK_THAT(
      error_of(base + "--schedule gpipe --microbatches 5"),
      ContainsSubstring("32 samples in 5 micro-batches with program pytorch, expected micro-batches of equal size"));
  CHECK_THAT(error_of(base + "--schedule gpipe --recompute 1"), ContainsSubstring("its stages keep their activations"));
  CHECK_THAT(error_of(base + "--schedule gpipe --overlap-steps 1"), ContainsSubstring("with a barrier between them"));
  CHECK_THAT(error_of("--program torch"), ContainsSubstring("expected pdl or pytorch"));
}

TEST_CASE("beside PyTorch's program its names are schedules, and programs that both have are the same") {
  for (const char* name : {"GPipe", "ScheduleGPipe", "gpipe"})
    CHECK(spec(std::string("--program pytorch --gpus 2 --schedule ") + name).schedule == "gpipe");
  CHECK(spec("--program pytorch --gpus 2 --schedule ZBVZeroBubble").schedule == "zb-v");
  CHECK_THROWS_WITH(spec("--gpus 2 --schedule GPipe"), ContainsSubstring("did you mean gpipe?"));
  const RunSpec pipeline = spec("--program pytorch --gpus 2 --schedule gpipe");
  CHECK(resolve(pipeline).program == Program::pytorch_pipeline);
  CHECK(pipeline.workers == Workers::process);
  CHECK(pipeline.transport == Transport::nccl);
  CHECK(resolve(spec("--program pytorch --gpus 2 --strategy ddp")).program == Program::ddp);
  CHECK(resolve(spec("--program pytorch --gpus 2 --schedule gpipe --workers one")).program == Program::one_thread);
  CHECK(resolve(spec("--program pytorch")).program == Program::one_thread);  // modules and autograd
  CHECK(on_cpu(pipeline).transport == Transport::gloo);
}

TEST_CASE("replicas of PyTorch's pipelines: the last backward of a stage is cut at its buckets, and is behind them") {
  // Two layers a stage, a bucket each: 512 x 512 numbers are 1 MiB.
  const std::string flags = "--program pytorch --gpus 4 --dp 2 --microbatches 2 --depth 4 --dim 512 --batch 8";
  CHECK(tasks_of(flags + " --schedule gpipe", 3) ==
        "receive F0 | F0 | receive F1 | F1 | B0 | send B0 | B1 | bucket in 0 | all-reduce 0 | B1 | bucket in 1 | "
        "all-reduce 1 | bucket out 0 | bucket out 1 | send B1 | optimizer");
  const Plan plan = make_plan(spec(flags + " --schedule gpipe"));
  std::map<std::uint32_t, std::vector<std::int32_t>> groups;
  for (const Task& task : plan.graph.tasks) {
    if (task.kind == TaskKind::all_reduce) groups[task.group].push_back(task.worker);
    if (is_pipeline_transfer(task.kind)) CHECK(plan.parallel.mesh.place(task.worker).dp == task.stage / 2);
  }
  CHECK(groups.size() == 4);  // two stages, two buckets: as many all-reduces, each of both replicas
  for (const auto& [group, workers] : groups) CHECK(workers[1] == workers[0] + 2);
  // Every round exchanges.
  const Plan rounds = make_plan(spec(flags + " --schedule gpipe --accum 3"));
  CHECK(std::count_if(rounds.graph.tasks.begin(), rounds.graph.tasks.end(),
                      [](const Task& task) { return task.kind == TaskKind::all_reduce; }) == 3 * 8);
}

TEST_CASE("the gradient of the last micro-batch leaves behind the exchange of its stage") {
  // Two stages of a layer, one micro-batch, forward 1, backward 2, messages 1, all-reduces of a stage 1 / 2:
  //   stage 1   [F] ..  B at 4, all-reduce to 4.5, its message to 5.5
  //   stage 0   B to 7.5, all-reduce to 8
  const std::string flags =
      "--program pytorch --gpus 4 --dp 2 --microbatches 1 --depth 2 --dim 64 --batch 8 "
      "--schedule gpipe --tf 1 --tb 2 --tcomm 1";
  CHECK(step_ms(flags) == 9);
  const Simulated s = simulate(flags);
  CHECK(longest_path_times(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic)) == s.times);
  // Without replicas: 1 + 1 + 1 + 2 + 1 + 2.
  CHECK(step_ms("--program pytorch --gpus 2 --microbatches 1 --depth 2 --dim 64 --batch 8 --schedule gpipe --tf 1 "
                "--tb 2 --tcomm 1") == 8);
  // Parts of a backward add up to it: two buckets of a stage, all-reduces that take no time.
  CHECK(step_ms("--program pytorch --gpus 4 --dp 2 --microbatches 1 --depth 6 --dim 512 --batch 8 --schedule gpipe "
                "--tf 1 --tb 2 --tcomm 0") == 6);
}

TEST_CASE("under AMP messages are of half precision, and only the first forward of a round casts") {
  const Plan plan = make_plan(
      spec("--program pytorch --gpus 2 --microbatches 4 --depth 4 --dim 64 --batch 32 --accum 2 --dtype amp-bf16 "
           "--schedule 1f1b"));
  std::string casts;
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    if (is_pipeline_transfer(task.kind)) CHECK(work.bytes == 8 * 64 * 2);
    if (task.kind == TaskKind::forward && task.worker == 1) casts += work.casts_are_there ? '.' : 'c';
  }
  CHECK(casts == "c...c...");
  const Plan fp32 = make_plan(spec("--program pytorch --gpus 2 --microbatches 4 --depth 4 --dim 64 --batch 32"));
  for (const Work& work : fp32.graph.works) CHECK_FALSE(work.casts_are_there);
}

TEST_CASE("what a process does in one call: messages of a batch, the optimizer of all its stages") {
  const auto in_one_call = [](const std::string& flags, std::int32_t worker) {
    const Plan plan = make_plan(spec("--program pytorch --gpus 2 --dim 64 --batch 24 --depth 4 " + flags));
    std::string text;
    for (const Task& task : plan.graph.tasks) {
      if (task.worker != worker || !plan.graph.works[task.work].same_call) continue;
      text += (text.empty() ? "" : " | ") + task_name(task.kind, task.stage, task.microbatch, true, task.part);
    }
    return text;
  };
  CHECK(in_one_call("--schedule 1f1b --microbatches 3", 0) == "receive 0B0 | receive 0B1");
  CHECK(in_one_call("--schedule gpipe --microbatches 3", 0).empty());
  CHECK(in_one_call("--schedule zb-v --microbatches 4", 0) == "optimizer 3");
}

TEST_CASE("with scale_grads a stage divides its gradients before the optimizer, and behind the exchange of replicas") {
  const std::string flags = "--program pytorch --microbatches 1 --depth 2 --dim 64 --batch 8 --scale-grads 1 ";
  CHECK(tasks_of(flags + "--gpus 2 --schedule gpipe", 0) ==
        "F0 | send F0 | receive B0 | B0 | scale gradients | optimizer");
  CHECK(tasks_of(flags + "--gpus 4 --dp 2 --schedule gpipe", 0) ==
        "F0 | send F0 | receive B0 | B0 | bucket in 0 | all-reduce 0 | bucket out 0 | scale gradients | optimizer");
}

TEST_CASE("a file with the order of Schedule1F1B is said to run otherwise in PyTorch") {
  const TemporaryFolder folder;
  const auto warnings_of = [&](const std::string& name, const std::string& program) {
    const Schedule& schedule = *find_schedule(name);
    const PipelineOrder order = make_order(schedule, {2, schedule.default_chunks, 4});
    const std::string path = folder.write(name + ".csv", to_csv(order));
    std::string text;
    for (const std::string& warning : make_plan(spec(program + " --depth 4 --batch 16 --schedule " + path)).warnings)
      text += warning + "\n";
    return text;
  };
  CHECK_THAT(
      warnings_of("1f1b", "--program pytorch"),
      ContainsSubstring("1f1b.csv is the order of Schedule1F1B, but PyTorch runs a file by "
                        "_PipelineScheduleRuntime, whose messages take longer: schedule 1f1b is the class itself"));
  CHECK_THAT(warnings_of("gpipe", "--program pytorch"), ContainsSubstring("is the order of ScheduleGPipe"));
  CHECK(warnings_of("looped-bfs", "--program pytorch").empty());
  CHECK(warnings_of("1f1b", "--program pdl").empty());
}
