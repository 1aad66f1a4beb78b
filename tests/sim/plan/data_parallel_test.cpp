// The steps of DistributedDataParallel, nn.DataParallel and replicated pipelines: tasks in order, exact times.
#include <algorithm>
#include <map>

#include "sim/io/error.hpp"
#include "sim/plan/plan.hpp"
#include "sim/predict/find_order.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/sim/spec/surviving_settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// Names of the tasks of a GPU in program order.
std::string tasks_of(const std::string& flags, std::int32_t worker) {
  const Plan plan = make_plan(spec(flags));
  std::string text;
  for (const Task& task : plan.graph.tasks) {
    if (task.worker != worker) continue;
    text += (text.empty() ? "" : " | ") + task_name(task.kind, 0, task.microbatch, false, task.part);
  }
  return text;
}

double step_ms(const std::string& flags) {
  return predict(spec(flags), nullptr).step_time.median_ms;
}

/// Synthetic times, but issue and device times of the given kinds of tasks are these, ms. A task is one kernel,
/// launched when it is issued.
struct HandTimes {
  double issue = 0;
  double device = 0;
};

double step_ms(const std::string& flags, double issue_of_others, const std::map<TaskKind, HandTimes>& given) {
  const Plan plan = make_plan(spec(flags));
  std::vector<TaskCost> costs = price_synthetic(plan, *plan.spec.synthetic);
  for (std::size_t w = 0; w < costs.size(); ++w) {
    const auto known = given.find(plan.graph.works[w].kind);
    if (plan.graph.works[w].kind == TaskKind::sleep) continue;
    const double issue = known == given.end() ? issue_of_others : known->second.issue;
    const auto issue_ns = static_cast<std::int64_t>(issue * 1e6);
    const auto device_ns =
        known == given.end() ? costs[w].device_ns : static_cast<std::int64_t>(known->second.device * 1e6);
    costs[w] = {device_ns, issue_ns, issue_ns, issue_ns + device_ns};
  }
  std::int64_t end_ns = 0;
  for (const TaskTimes& task : run_graph(plan.graph, costs)) end_ns = std::max(end_ns, task.end_ns);
  return static_cast<double>(end_ns) / 1e6;
}

const std::string kOneBucket = " --bucket-mb 100000 --first-bucket-mb 100000 ";

}  // namespace

TEST_CASE("ddp: a part of the backward, the copy in and the all-reduce of each bucket, the copies out, the optimizer") {
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8", 1) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | "
        "bucket out 0 | bucket out 1 | bucket out 2 | optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8 --bucket-views 1", 0) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | "
        "optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 1 --depth 2 --dim 4096 --batch 8", 0) ==
        "F0 | B0 | bucket in 0 | B0 | bucket in 1 | bucket out 0 | bucket out 1 | optimizer");
}

TEST_CASE("ddp: rounds exchange in every round, or with no_sync in the last one only") {
  const std::string flags =
      "--strategy ddp --gpus 2 --depth 1 --dim 512 --batch 8 --accum 2 --delay-ms 3 --straggler 1:5";
  CHECK(tasks_of(flags, 0) ==
        "F0 | sleep | B0 | bucket in 0 | all-reduce 0 | bucket out 0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | "
        "bucket out 0 | optimizer");
  CHECK(tasks_of(flags + " --no-sync 1", 1) ==
        "sleep | F0 | sleep | B0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | optimizer");
  // Micro-batches of a round are not exchanged one by one.
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 1 --dim 512 --batch 8 --microbatches 2 --accum 2", 1) ==
        "F0 | B0 | F1 | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | F2 | B2 | F3 | B3 | bucket in 0 | all-reduce "
        "0 | bucket out 0 | optimizer");
}

TEST_CASE("ddp: an all-reduce starts when its bucket is full and goes on beside the backward") {
  // A layer: forward 1, backward 2, exchange 1.    F F F F B3 B3 B2 B2 B1 B1 B0 B0
  //                                                            3     2     1     0
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 4") == 13);
  // Exchange 3 a layer: 3 from 6 to 9, then 2, 1, 0 to 18.
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 12") == 18);
}

TEST_CASE(
    "ddp with views of the buckets: what comes next waits for the last all-reduce, though nothing is copied back") {
  // Two layers: forward 2, backward 4, exchange 12.    FF BB BB ..............
  //                                                          1111111 0000000     4 to 10, 10 to 16; then the optimizer
  const std::string flags = "--strategy ddp --gpus 2 --depth 2 --tf 2 --tb 4 --tcomm 12 --bucket-views ";
  for (const std::string views : {"0", "1"}) {
    INFO(views);
    CHECK(step_ms(flags + views, 0, {{TaskKind::optimizer, {0, 1}}}) == 17);
    // Two rounds: the second one's forward begins at 16.
    CHECK(step_ms(flags + views + " --accum 2") == 32);
    CHECK(step_ms(flags + views + " --accum 2 --no-sync 1") == 6 + 16);
  }
}

TEST_CASE("ddp slower than one GPU, without overlap") {
  CHECK(step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) ==
        Approx(26.36).epsilon(1e-12));
  const double one_gpu_ms = 22.03;  // measured by others, 2 x T4
  CHECK(one_gpu_ms / step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) ==
        Approx(.836).margin(5e-4));
}

TEST_CASE("no_sync: one exchange in four rounds, c + s / 4 a round instead of c + s") {
  const std::string flags = "--strategy ddp --gpus 2 --accum 4 --tf 4 --tb 8 --tcomm 6" + kOneBucket;
  CHECK(step_ms(flags + "--no-sync 0") == 4 * (12 + 6));
  CHECK(step_ms(flags + "--no-sync 1") == 4 * 12 + 6);
  CHECK(predict(spec(flags + "--no-sync 0"), nullptr).collective_bytes.size() == 4);
  CHECK(predict(spec(flags + "--no-sync 1"), nullptr).collective_bytes.size() == 1);
}

TEST_CASE("dp: scatter, broadcast, forward, gather, loss, scatter, backward, reduce, the rest is GPU 0's") {
  const std::string flags = "--strategy dp --gpus 3 --depth 1 --dim 2048 --batch 9";
  CHECK(tasks_of(flags, 0) ==
        "scatter 1 | scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 1 | gather 2 | loss | scatter 1 | scatter 2 | "
        "B0 | "
        "reduce 0 | reduce 1 | optimizer");
  CHECK(tasks_of(flags, 2) ==
        "scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 2 | scatter 2 | B0 | reduce 0 | reduce 1");
  CHECK(tasks_of("--strategy dp --gpus 1 --depth 1 --dim 2048 --batch 9", 0) == "F0 | loss | B0 | optimizer");
}

TEST_CASE(
    "dp: every round, and every micro-batch of it, moves all there is, sums of later ones are added to the gradients") {
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 ";
  const auto round = [](const std::string& m) {
    return "scatter 1 | broadcast 0 | F" + m + " | gather 1 | loss | sleep | scatter 1 | B" + m + " | reduce 0 | ";
  };
  const std::string added = "bucket out 0 | ";
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2", 0) == round("0") + round("1") + added + "optimizer");
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2 --microbatches 2", 0) ==
        round("0") + round("1") + added + round("2") + added + round("3") + added + "optimizer");
  // The other GPU: no loss, no sleep of the main thread, no sums; its own thread may sleep first.
  const auto of_other = [](const std::string& m) {
    return "scatter 1 | broadcast 0 | F" + m + " | gather 1 | scatter 1 | B" + m + " | reduce 0";
  };
  CHECK(tasks_of(flags + "--delay-ms 3 --accum 2 --straggler 1:5", 1) ==
        "sleep | " + of_other("0") + " | " + of_other("1"));
  CHECK(tasks_of(flags + "--straggler 0:5", 1) == of_other("0"));
  CHECK(tasks_of("--strategy dp --gpus 1 --depth 1 --dim 64 --batch 8 --accum 2", 0) ==
        "F0 | loss | B0 | F1 | loss | B1 | optimizer");
}

TEST_CASE("dp: micro-batches are slices of each GPU's part of the batch") {
  const Plan plan = make_plan(spec("--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --microbatches 2 --accum 2"));
  CHECK(plan.microbatch_rows == std::vector<std::int64_t>{2, 2, 2, 2});
  for (const Task& task : plan.graph.tasks) {
    const Work& work = plan.graph.works[task.work];
    CAPTURE(task_name(task.kind, 0, task.microbatch, false, task.part));
    if (is_compute(task.kind) || is_transfer(task.kind)) CHECK(work.rows == 2);
    if (is_transfer(task.kind)) CHECK(work.bytes == 2 * 64 * 4);
    if (task.kind == TaskKind::loss) CHECK(work.rows == 4);
    if (task.kind == TaskKind::loss) CHECK(work.bytes == 4 * 64 * 4);
    if (task.kind == TaskKind::bucket_copy_out) CHECK(work.accumulate);
    if (task.kind == TaskKind::backward) CHECK_FALSE(work.accumulate);  // each backward's gradients are new
  }
}

TEST_CASE("dp: the main thread waits for the threads of the GPUs, and they for it") {
  // Issue, ms: forward 10, backward 20, others 1; the devices take no time. Slices are issued at both ends.
  //
  //   main    s s b b ..........F g g l s s ....................B r r o      4 + 10 + 5 + 20 + 3
  //   GPU 0          FFFFFFFFFF             BBBBBBBBBBBBBBBBBBBB
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1 ";
  const std::map<TaskKind, HandTimes> hosts = {{TaskKind::forward, {10, 0}}, {TaskKind::backward, {20, 0}}};
  CHECK(step_ms(flags, 1, hosts) == 42);
  // A second round: 39 once more without the optimizer's 1, and its sum's 1.
  CHECK(step_ms(flags + "--accum 2", 1, hosts) == 41 + 41 + 1 + 1);
  // One GPU: forward, loss, the backward of its thread, which waits for the loss of the main thread, the optimizer.
  CHECK(step_ms("--strategy dp --gpus 1 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1", 1, hosts) == 10 + 1 + 20 + 1);
  // The main thread sleeps before the backward; a GPU's thread before its forward, from the start of the step on.
  CHECK(step_ms(flags + "--delay-ms 3", 1, hosts) == 42 + 3);
  for (const std::string gpu : {"0", "1"}) CHECK(step_ms(flags + "--straggler " + gpu + ":20", 1, hosts) == 42 + 16);
}

TEST_CASE("dp: hosts run ahead of the devices, and the devices of nobody") {
  const std::string flags = "--strategy dp --gpus 2 --depth 1 --dim 64 --batch 8 --tf 0 --tb 1 ";
  std::map<TaskKind, HandTimes> times = {{TaskKind::forward, {10, 0}}, {TaskKind::backward, {20, 0}}};
  // The broadcast takes 100 from 4 on: everything is issued long before it ends.
  times[TaskKind::broadcast] = {1, 100};
  CHECK(step_ms(flags, 1, times) == 4 + 100);
  // The loss is issued at 17; its 100 hide the rest, but for 7 of the optimizer.
  times[TaskKind::broadcast] = {1, 0};
  times[TaskKind::loss] = {1, 100};
  times[TaskKind::optimizer] = {1, 7};
  CHECK(step_ms(flags, 1, times) == 17 + 100 + 7);
}

TEST_CASE("dp: nothing overlaps, broadcast and reduction take their time each") {
  CHECK(step_ms("--strategy dp --gpus 4 --tf 4 --tb 8 --tcomm 5") == 5 + 4 + 8 + 5);
}

TEST_CASE("dp: slices are torch.chunk's, GPUs without one are idle (pytorch #15161)") {
  using Rows = std::vector<std::int64_t>;
  const auto rows = [](const char* batch, const char* gpus) {
    return make_plan(spec(std::string("--strategy dp --depth 1 --dim 64 --batch ") + batch + " --gpus " + gpus))
        .replica_rows;
  };
  CHECK(rows("10", "4") == Rows{3, 3, 3, 1});
  CHECK(rows("9", "4") == Rows{3, 3, 3, 0});
  CHECK(rows("5", "8") == Rows{1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(rows("17", "8") == Rows{3, 3, 3, 3, 3, 2, 0, 0});
  CHECK(tasks_of("--strategy dp --depth 1 --dim 64 --batch 9 --gpus 4", 3).empty());
}

TEST_CASE("ddp: parts of the batch are as even as can be and add up") {
  CHECK(make_plan(spec("--strategy ddp --gpus 4 --depth 1 --dim 64 --batch 10")).replica_rows ==
        std::vector<std::int64_t>{3, 3, 2, 2});
}

TEST_CASE("one GPU: M x (forward + backward) and no bubble, for every strategy") {
  for (const std::string strategy : {"single", "mp", "pp", "dp", "ddp"}) {
    for (const std::string m : {"1", "3", "8"}) {
      const RunResult run = predict(
          spec("--gpus 1 --strategy " + strategy + " --microbatches " + m + " --tf 1 --tb 2 --tcomm 7"), nullptr);
      CAPTURE(strategy, m);
      CHECK(run.step_time.median_ms == 3 * std::stoi(m));
      CHECK(compute_metrics(run).bubble_fraction == 0);
    }
  }
}

TEST_CASE("a straggler costs everyone its sleep, a delay costs its sleep where nothing hides it") {
  // The sleep of rank 0 begins with the step; the others' all-reduces wait for it.
  const std::string flags = "--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 4";
  CHECK(step_ms(flags + " --straggler 0:20") == 13 + 20);
  CHECK(step_ms(flags + " --straggler 3:20") == 13 + 20);
  // The host sleeps while the GPU is at its forward (nothing takes host time here): 10 ms, of which 4 are hidden.
  CHECK(step_ms(flags + " --delay-ms 10") == 13 + 6);
}

TEST_CASE("pipeline x data parallel: every stage averages its gradients over the replicas") {
  const std::string flags = "--gpus 4 --pp 2 --dp 2 --depth 4 --microbatches 2 --schedule gpipe --tf 1 --tb 2 ";
  const Plan plan = make_plan(spec(flags));
  REQUIRE(plan.stages.size() == 4);
  CHECK(plan.stages[2].worker == 2);
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

TEST_CASE("rounds of a pipeline follow each other without a pause") {
  // Two rounds of naive, one GPU after the other: the second round's first forward starts when its GPU is free.
  CHECK(step_ms("--gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --accum 2") == 12);
  CHECK(step_ms("--gpus 1 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --accum 3") == 18);
  CHECK(step_ms("--gpus 2 --strategy mp --microbatches 1 --tf 1 --tb 2 --accum 2") == 12);
}

TEST_CASE("what data parallelism refuses") {
  const auto refused = [](const std::string& flags) {
    try {
      make_plan(spec(flags));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(refused("--strategy ddp --gpus 2 --bucket-mb 0"), ContainsSubstring("--bucket-mb"));
  CHECK_THAT(refused("--strategy ddp --gpus 2 --first-bucket-mb -1"), ContainsSubstring("--first-bucket-mb"));
  CHECK_THAT(refused("--strategy ddp --gpus 2 --accum 0"), ContainsSubstring("--accum"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --straggler 4:20"), ContainsSubstring("rank 4"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --straggler 20"), ContainsSubstring("RANK:MS"));
  CHECK_THAT(refused("--strategy mp --gpus 4 --straggler 1:20"), ContainsSubstring("one host thread"));
  // torch.chunk makes 2 2 1 of 5 samples: GPU 3 has no thread that could sleep.
  CHECK_THAT(refused("--strategy dp --gpus 4 --batch 5 --straggler 3:20"),
             ContainsSubstring("rank 3, which has no samples") && ContainsSubstring("0 to 2"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --batch 3"), ContainsSubstring("3 samples for 4 replicas"));
  CHECK_THAT(refused("--gpus 4 --pp 3 --dp 2"), ContainsSubstring("number of GPUs"));
  CHECK_THAT(refused("--gpus 4 --pp 2 --dp 2 --batch 2047"), ContainsSubstring("multiple"));
  CHECK_THAT(refused("--gpus 4 --strategy ddp --dp 2"), ContainsSubstring("strategy pp"));
  CHECK_THAT(refused("--gpus 2 --bucket-mb 25"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--gpus 2 --strategy mp --no-sync 1"),
             ContainsSubstring("no_sync") || ContainsSubstring("no-sync"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --hosts 3"), ContainsSubstring("hosts"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --transport copy"), ContainsSubstring("nccl"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --workers thread"), ContainsSubstring("process"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --recompute 1"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--strategy dp --gpus 4 --overlap-steps 1"), ContainsSubstring("no meaning"));
}

TEST_CASE("auto finds the order of one replica and one round") {
  const std::string flags = "--pp 2 --dp 2 --chunks 2 --batch 64 --microbatches 4 --tf 1 --tb 2 --tcomm 0 --accum ";
  CHECK(predict(spec(flags + "2 --schedule auto"), nullptr).timeline.workers == 4);
  // Each GPU works 4 x 6 a round. With two chunks, down and up, the second one waits for half a forward, and no order
  // does better.
  CHECK(step_ms(flags + "1 --schedule auto") == 1 + 4 * 6);
  // Two rounds of it, one after another; 1F1B waits for a forward, and for a backward at the end.
  CHECK(step_ms(flags + "2 --schedule auto") <= 2 * (1 + 4 * 6));
  CHECK(step_ms(flags + "2 --schedule auto") >= 1 + 8 * 6);
  CHECK(step_ms("--pp 2 --dp 2 --batch 64 --microbatches 4 --tf 2 --tb 4 --tcomm 0 --schedule 1f1b") == 2 + 4 * 6 + 4);
}

TEST_CASE("auto with rounds: as many micro-batches as torch.chunk makes, in the settings too") {
  const RunSpec asked = spec("--pp 2 --gpus 2 --depth 4 --dim 64 --batch 5 --microbatches 4 --accum 2 --schedule auto");
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h100x4/profile.json");
  CHECK(with_found_order(asked, &profile, std::nullopt).microbatches == 3);
}

TEST_CASE("settings of data parallelism survive their own words") {
  for (const char* flags :
       {"--strategy ddp --gpus 4 --accum 8 --no-sync 1 --bucket-mb 100 --first-bucket-mb 0.5 --bucket-views 1",
        "--strategy ddp --gpus 16 --hosts 2 --network-gb-per-s 25 --network-latency-us 10 --delay-ms 2.5 --straggler "
        "3:20",
        "--strategy dp --gpus 3 --batch 12 --microbatches 2 --dtype amp-fp16 --loss-scale 1024 --accum 2 --straggler "
        "2:0.5",
        "--gpus 8 --pp 4 --dp 2 --schedule zb-h1 --accum 2 --no-sync 1", "--pp 2 --dp 3 --batch 2400"}) {
    check_that_settings_survive(flags);
  }
}
