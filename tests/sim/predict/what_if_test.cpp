#include "sim/predict/what_if.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

double step_without(const std::vector<StepWithout>& all, const std::string& what) {
  for (const StepWithout& without : all) {
    if (without.what == what) return without.step_time_ms;
  }
  FAIL("nothing is said of " << what);
  return 0;
}

/// The parts of every GPU, and the critical path, add up to the step, to the nanosecond.
void check_sums(const RunResult& run, const Explanation& explanation) {
  REQUIRE(explanation.gpus.size() == static_cast<std::size_t>(run.spec.gpus));
  for (const TimeByPart& gpu : explanation.gpus) {
    CHECK(gpu.sum_ns() == explanation.step_ns);
    for (const std::int64_t ns : gpu.ns) CHECK(ns >= 0);
  }
  std::int64_t until_ns = 0;
  for (const PathSegment& segment : explanation.critical_path) {
    CHECK(segment.start_ns == until_ns);
    until_ns = segment.end_ns;
  }
  CHECK(until_ns == run.timeline.step_ns);
  CHECK(explanation.critical_path_by_part.sum_ns() == run.timeline.step_ns);
}

}  // namespace

TEST_CASE("steps without transfers, without a slow stage, and the ideal") {
  //   GPipe on 2 GPUs with 2 micro-batches: (M + P - 1) x (1 + 2) = 9 ms, and 2 transfers of 1 ms on the path
  const RunResult run = predict(
      spec("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --tcomm 1"), nullptr);
  const std::vector<StepWithout> without = what_if(run, nullptr);
  CHECK(run.step_time.median_ms == 11);
  CHECK(step_without(without, "transfers") == 9);
  CHECK(step_without(without, "ideal") == 9);
  CHECK(without.size() == 2);  // no host, no collective, equal stages, and an optimizer that takes no time
}

TEST_CASE("without collectives, and without the sleep of a straggler") {
  //   forward 4, backward 8, then the only bucket's all-reduce, 3
  const std::string ddp = "--dim 4 --strategy ddp --gpus 2 --depth 1 --batch 4 --tf 4 --tb 8 --tcomm 3";
  const RunResult even = predict(spec(ddp), nullptr);
  CHECK(even.step_time.median_ms == 15);
  CHECK(step_without(what_if(even, nullptr), "collectives") == 12);
  CHECK(what_if(even, nullptr).size() == 2);
  const RunResult late = predict(spec(ddp + " --straggler 1:6"), nullptr);
  CHECK(late.step_time.median_ms == 21);
  CHECK(step_without(what_if(late, nullptr), "sleep") == 15);
  CHECK(step_without(what_if(late, nullptr), "collectives") == 18);
  //   A pipeline: (M + P - 1) x (1 + 2) = 21 ms, and 6 of the 7 ms of sleep that F0 of GPU 0 does not hide
  const RunResult pipeline = predict(
      spec("--dim 4 --batch 4 --depth 4 --gpus 4 --microbatches 4 --schedule 1f1b --tf 1 --tb 2 --straggler 1:7"),
      nullptr);
  CHECK(pipeline.step_time.median_ms == 27);
  CHECK(step_without(what_if(pipeline, nullptr), "sleep") == 21);
}

TEST_CASE("without recomputation, which the ideal has in it and says so") {
  //   GPU 0  F0 F1 R0 .. .. .. B0 B0 R1 B1 B1     without: (M + P - 1) x (1 + 2) = 9 ms
  //   GPU 1  .. F0 F1 R0 B0 B0 R1 B1 B1 .. ..
  const RunResult run = predict(
      spec("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --recompute 1"),
      nullptr);
  const std::vector<StepWithout> without = what_if(run, nullptr);
  CHECK(run.step_time.median_ms == 11);
  CHECK(step_without(without, "recomputation") == 9);
  CHECK(step_without(without, "ideal") == run.step_time.median_ms);
  CHECK(without.back().words == "With forward, backward and recomputation alone");
}

TEST_CASE("by a profile: without transfers, the optimizer, the overhead of the step") {
  //   One micro-batch of 32 rows on 2 GPUs, a layer each: forward 32 us, backward 32 and 64, loss 10, transfers 3 each,
  //   optimizer 25 and overhead 7
  const CostProfile profile = tiny_profile();
  const RunResult run =
      predict(spec("--gpus 2 --depth 2 --dim 64 --batch 32 --microbatches 1 --schedule gpipe"), &profile);
  const double step_ms = run.step_time.median_ms;
  const std::vector<StepWithout> without = what_if(run, &profile);
  CHECK(step_without(without, "transfers") == Approx(step_ms - 0.006));
  CHECK(step_without(without, "host") == Approx(step_ms - 0.007));
  CHECK(step_without(without, "optimizer") == Approx(step_ms - 0.025));
  check_sums(run, explain_prediction(run, &profile));
}

TEST_CASE("by a profile: without contention") {
  //   3 layers, a bucket each, 32 rows a GPU, 10 multiprocessors. A backward has 8 blocks, an all-reduce holds 6
  //   multiprocessors: beside it two blocks run on each of the other 4, and a backward takes twice as long.
  CostProfile profile = tiny_profile();
  profile.host_description.multiprocessors = 10;
  for (MeasuredCurve& measured : profile.curves) {
    if (measured.key.operation != "backward") continue;
    for (CurvePoint& point : measured.curve.points) point.kernels = {{"gemm", point.time_ns, 8, 2, 1}};
  }
  const auto add = [&](Probe probe, const char* operation, double time_ns) -> CurvePoint& {
    MeasuredKey key;
    key.probe = probe;
    key.operation = operation;
    if (probe == Probe::collective) key.transport = "nccl";
    if (probe == Probe::collective) key.ranks = 2;
    Curve curve;
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{1} << 30}) {
      curve.points.push_back(tiny_point(size, time_ns));
      if (probe == Probe::collective) curve.points.back().kernels = {{"ring", time_ns, 6, 1, 1}};
    }
    profile.curves.push_back({key, curve});
    return profile.curves.back().curve.points.back();
  };
  add(Probe::bucket, "copy_in", 1000);
  add(Probe::bucket, "copy_out", 1000);
  add(Probe::collective, "all_reduce", 10'000);
  std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  for (const auto& [name, transport] : {std::pair{"reducer_hook", ""}, std::pair{"collective_issue", "nccl"}}) {
    HostTime host = profile.host.front();
    host.key.name = name;
    host.key.transport = transport;
    profile.host.push_back(host);
  }
  std::sort(profile.host.begin(), profile.host.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  const RunResult run = predict(spec("--strategy ddp --gpus 2 --depth 3 --dim 64 --batch 64 --bucket-mb 0.01 "
                                     "--first-bucket-mb 0.01"),
                                &profile);
  const Explanation explanation = explain_prediction(run, &profile);
  check_sums(run, explanation);
  //   forward 96, then backward 74 with the loss, 64 and 32 us, copies in of 1 us, the last all-reduce, its copy out,
  //   optimizer 25, overhead 7. The backwards of 64 and 32 us begin beside the all-reduce of the layer after them.
  CHECK(step_without(explanation.without, "contention") == Approx(.312));
  CHECK(run.step_time.median_ms == Approx(.312 + .064 + .032));
  for (const TimeByPart& gpu : explanation.gpus) {
    CHECK(gpu[StepPart::useful] == 266'000);
    CHECK(gpu[StepPart::contention] == 96'000);
    CHECK(gpu[StepPart::collectives] == 8'000);  // of 10, beside which two buckets are copied out
  }
}

TEST_CASE("the parts add up to the step for every schedule, strategy, and transport") {
  std::vector<std::string> grid;
  for (const std::string& schedule : every_schedule(2, 4)) {
    grid.push_back("--depth 4 " + schedule);
    grid.push_back("--depth 4 --transport nccl --p2p rendezvous " + schedule);
  }
  for (const std::string& schedule : every_schedule(4, 8)) grid.push_back("--depth 8 " + schedule);
  for (const char* rest :
       {"--gpus 1", "--strategy ddp --gpus 4 --depth 4", "--strategy ddp --gpus 4 --depth 4 --accum 3 --straggler 2:9",
        "--strategy dp --gpus 3 --depth 4", "--strategy mp --gpus 4 --depth 4",
        "--workers one --gpus 2 --depth 4 --microbatches 4 --schedule option-c",
        "--gpus 4 --pp 2 --dp 2 --depth 4 --microbatches 4 --schedule 1f1b",
        "--gpus 2 --depth 4 --schedule gpipe --accum 2", "--gpus 2 --depth 4 --schedule gpipe --delay-ms 3",
        "--gpus 2 --depth 4 --schedule gpipe --recompute 1"})
    grid.push_back(rest);
  std::size_t explained = 0;
  for (const std::string& flags : grid) {
    for (const char* costs : {" --tf 1 --tb 2.3 --tcomm 0.7", " --tf 1 --tb 2.3 --tcomm 0"}) {
      INFO(flags << costs);
      RunSpec asked;
      try {
        asked = spec("--dim 4 --batch 64 " + flags + costs);
      } catch (const InputError&) {
        continue;  // a schedule that this transport or these messages do not go with
      }
      const RunResult run = predict(asked, nullptr);
      check_sums(run, explain_prediction(run, nullptr));
      ++explained;
    }
  }
  CHECK(explained > 60);
}

TEST_CASE("the parts add up for the measured runs of the project, and their predictions") {
  std::size_t runs = 0, unequal = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(PDL_SOURCE_DIR "/data")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".json" || path.find("/runs") == std::string::npos) continue;
    if (++runs % 8 != 0) continue;
    const RunResult run = read_run(path);
    const std::optional<Explanation> explanation = explain(run);
    INFO(path);
    if (explanation) check_sums(run, *explanation);
    if (!explanation) ++unequal;
  }
  CHECK(runs > 100);
  CHECK(unequal == 0);
}
