// The steps of DistributedDataParallel, nn.DataParallel and replicated pipelines: tasks in order, exact times.
#include <algorithm>

#include "sim/plan/plan.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/predict.hpp"
#include "sim/spec/error.hpp"
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

double step_ms(const std::string& flags) { return predict(spec(flags), nullptr).step_time.median_ms; }

const std::string kOneBucket = " --bucket-mb 100000 --first-bucket-mb 100000 ";

}  // namespace

TEST_CASE("ddp: a part of the backward, the copy in and the all-reduce of each bucket, the copies out, the optimizer") {
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8", 1) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | "
        "bucket out 0 | bucket out 1 | bucket out 2 | optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8 --bucket-views 1", 0) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 1 --depth 2 --dim 4096 --batch 8", 0) ==
        "F0 | B0 | bucket in 0 | B0 | bucket in 1 | bucket out 0 | bucket out 1 | optimizer");
}

TEST_CASE("ddp: rounds exchange in every round, or with no_sync in the last one only") {
  const std::string flags = "--strategy ddp --gpus 2 --depth 1 --dim 512 --batch 8 --accum 2 --delay-ms 3 --straggler 1:5";
  CHECK(tasks_of(flags, 0) ==
        "F0 | sleep | B0 | bucket in 0 | all-reduce 0 | bucket out 0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | optimizer");
  CHECK(tasks_of(flags + " --no-sync 1", 1) ==
        "sleep | F0 | sleep | B0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | optimizer");
}

TEST_CASE("ddp: an all-reduce starts when its bucket is full and goes on beside the backward") {
  // A layer: forward 1, backward 2, exchange 1.    F F F F B3 B3 B2 B2 B1 B1 B0 B0
  //                                                            3     2     1     0
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 4") == 13);
  // Exchange 3 a layer: 3 from 6 to 9, then 2, 1, 0 to 18.
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 12") == 18);
}

TEST_CASE("ddp slower than one GPU, without overlap") {
  CHECK(step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) == Approx(26.36).epsilon(1e-12));
  const double one_gpu_ms = 22.03;  // measured by others, 2 x T4
  CHECK(one_gpu_ms / step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) == Approx(.836).margin(5e-4));
}

TEST_CASE("no_sync: one exchange in four rounds, c + s / 4 a round instead of c + s") {
  const std::string flags = "--strategy ddp --gpus 2 --accum 4 --tf 4 --tb 8 --tcomm 6" + kOneBucket;
  CHECK(step_ms(flags + "--no-sync 0") == 4 * (12 + 6));
  CHECK(step_ms(flags + "--no-sync 1") == 4 * 12 + 6);
  CHECK(predict(spec(flags + "--no-sync 0"), nullptr).collective_bytes.size() == 4);
  CHECK(predict(spec(flags + "--no-sync 1"), nullptr).collective_bytes.size() == 1);
}

TEST_CASE("dp: scatter, broadcast, forward, gather, loss, scatter, backward, reduce; the rest is GPU 0's") {
  const std::string flags = "--strategy dp --gpus 3 --depth 1 --dim 2048 --batch 9";
  CHECK(tasks_of(flags, 0) ==
        "scatter 1 | scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 1 | gather 2 | loss | scatter 1 | scatter 2 | B0 | "
        "reduce 0 | reduce 1 | optimizer");
  CHECK(tasks_of(flags, 2) == "scatter 2 | broadcast 0 | broadcast 1 | F0 | gather 2 | scatter 2 | B0 | reduce 0 | reduce 1");
  CHECK(tasks_of("--strategy dp --gpus 1 --depth 1 --dim 2048 --batch 9", 0) == "F0 | loss | B0 | optimizer");
}

TEST_CASE("dp: nothing overlaps; broadcast and reduction take their time each") {
  CHECK(step_ms("--strategy dp --gpus 4 --tf 4 --tb 8 --tcomm 5") == 5 + 4 + 8 + 5);
}

TEST_CASE("dp: slices are torch.chunk's, GPUs without one are idle (pytorch #15161)") {
  using Rows = std::vector<std::int64_t>;
  const auto rows = [](const char* batch, const char* gpus) {
    return make_plan(spec(std::string("--strategy dp --depth 1 --dim 64 --batch ") + batch + " --gpus " + gpus)).replica_rows;
  };
  CHECK(rows("10", "4") == Rows{3, 3, 3, 1});
  CHECK(rows("9", "4") == Rows{3, 3, 3, 0});
  CHECK(rows("5", "8") == Rows{1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(rows("17", "8") == Rows{3, 3, 3, 3, 3, 2, 0, 0});
  CHECK(tasks_of("--strategy dp --depth 1 --dim 64 --batch 9 --gpus 4", 3).empty());
}

TEST_CASE("ddp: parts of the batch are as even as can be and add up") {
  CHECK(make_plan(spec("--strategy ddp --gpus 4 --depth 1 --dim 64 --batch 10")).replica_rows == std::vector<std::int64_t>{3, 3, 2, 2});
}

TEST_CASE("one GPU: M x (forward + backward) and no bubble, for every strategy") {
  for (const std::string strategy : {"single", "mp", "pp", "dp", "ddp"}) {
    for (const std::string m : {"1", "3", "8"}) {
      const RunResult run = predict(spec("--gpus 1 --strategy " + strategy + " --microbatches " + m + " --tf 1 --tb 2 --tcomm 7"), nullptr);
      CAPTURE(strategy, m);
      CHECK(run.step_time.median_ms == 3 * std::stoi(m));
      CHECK(compute_metrics(run).bubble_fraction == 0);
    }
  }
}

TEST_CASE("a straggler costs everyone its sleep; a delay costs its sleep where nothing hides it") {
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
  CHECK_THAT(refused("--strategy ddp --gpus 4 --batch 3"), ContainsSubstring("3 samples for 4 replicas"));
  CHECK_THAT(refused("--gpus 4 --pp 3 --dp 2"), ContainsSubstring("number of GPUs"));
  CHECK_THAT(refused("--gpus 4 --pp 2 --dp 2 --batch 2047"), ContainsSubstring("multiple"));
  CHECK_THAT(refused("--gpus 4 --strategy ddp --dp 2"), ContainsSubstring("strategy pp"));
  CHECK_THAT(refused("--gpus 2 --bucket-mb 25"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--gpus 2 --strategy mp --no-sync 1"), ContainsSubstring("no_sync") || ContainsSubstring("no-sync"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --hosts 3"), ContainsSubstring("hosts"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --transport copy"), ContainsSubstring("nccl"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --workers thread"), ContainsSubstring("process"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --recompute 1"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--strategy dp --gpus 4 --overlap-steps 1"), ContainsSubstring("no meaning"));
}

TEST_CASE("auto finds the order of one replica and one round") {
  const std::string flags = "--dp 2 --depth 4 --batch 64 --microbatches 4 --schedule auto --tf 2 --tb 4 --tcomm 0 --accum 2 --pp ";
  const RunResult found = predict(spec(flags + "2"), nullptr);
  CHECK(found.timeline.workers == 4);
  // No order of two stages ends before the last one has done its 2 x 4 micro-batches after the first forward.
  CHECK(found.step_time.median_ms >= 2 + 8 * 6);
}

TEST_CASE("settings of data parallelism survive their own words") {
  for (const std::string flags :
       {"--strategy ddp --gpus 4 --accum 8 --no-sync 1 --bucket-mb 100 --first-bucket-mb 0.5 --bucket-views 1",
        "--strategy ddp --gpus 16 --hosts 2 --network-gb-per-s 25 --network-latency-us 10 --delay-ms 2.5 --straggler 3:20",
        "--strategy dp --gpus 3 --batch 10 --dtype amp-fp16 --loss-scale 1024", "--gpus 8 --pp 4 --dp 2 --schedule zb-h1 --accum 2",
        "--pp 2 --dp 3 --batch 2400"}) {
    const RunSpec first = spec(flags);
    const RunSpec second = parse_run_spec(to_settings(first));
    CAPTURE(flags);
    const auto text = [](const RunSpec& s) {
      std::string all;
      for (const SettingValue& setting : to_settings(s)) all += setting.name + "=" + setting.value + " ";
      return all;
    };
    CHECK(text(first) == text(second));
  }
}
