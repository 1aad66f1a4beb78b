// The pipeline program on the GPUs of this host. Run where there are at least two.
#include "runtime/program/pipeline_program.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/measure/measure.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "tests/gpu/gpu_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/process.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

void check_equal(const std::string& flags, const std::string& optimizer) {
  INFO(flags);
  const Plan plan = make_plan(spec("--dim 256 --depth 11 --batch 127 " + flags + " --optimizer " + optimizer));
  const RuntimeOptions options = gpu_options(optimizer);
  check_trains_as_one_gpu(*make_pipeline_program(plan, options), plan, options);
}

}  // namespace

TEST_CASE("Every schedule on GPUs trains as one GPU with the whole batch does", "[gpu][pipeline]") {
  for (const int gpus : {1, 2, 3, 4}) {
    if (!enough_gpus(gpus)) return;
    const int microbatches = gpus == 3 ? 6 : 8;
    for (const std::string& flags : every_schedule(gpus, microbatches)) check_equal(flags, "sgd");
    for (const std::string& flags : every_schedule(gpus, microbatches, true)) check_equal(flags, "sgd");
    check_equal("--schedule 1f1b --microbatches 4 --gpus " + std::to_string(gpus), "adam");
  }
}

TEST_CASE("NCCL messages between threads", "[gpu][pipeline]") {
  const int gpus = std::min(gpu_count(), 4);
  if (!enough_gpus(2)) return;
  // A message needs a connection, which takes a while to make: orders of each kind, not all of them.
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h2", "interleaved --chunks 2", "zb-v", "dualpipe-v"}) {
    check_equal(
        "--transport nccl --microbatches 8 --gpus " + std::to_string(gpus == 3 ? 2 : gpus) + " --schedule " + schedule,
        "sgd");
  }
}

TEST_CASE("Replicas of a pipeline on GPUs train as one GPU with the whole batch does",
          "[gpu][pipeline][data_parallel]") {
  if (!enough_gpus(4)) return;
  const at::Device first(at::kCUDA, 0);
  for (const std::string shape : {"--pp 2 --dp 2", "--pp 1 --dp 4"}) {
    for (const std::string schedule :
         {"1f1b", "zb-h1", "gpipe --transport nccl --accum 2", "1f1b --accum 2 --no-sync 1", "zb-v"}) {
      if (shape.starts_with("--pp 1") && schedule != "1f1b") continue;
      const std::string flags =
          "--dim 256 --depth 9 --batch 128 --microbatches 4 --gpus 4 " + shape + " --schedule " + schedule;
      INFO(flags);
      const Plan plan = make_plan(spec(flags));
      const RuntimeOptions options = gpu_options();
      auto program = make_pipeline_program(plan, options);
      for (int step = 0; step < kSteps; ++step) program->step(nullptr);
      std::vector<std::int64_t> layers;
      for (const Stage& stage : plan.stages) {
        for (std::int32_t l = 0; l < stage.layer_count; ++l) layers.push_back(stage.first_layer + l);
      }
      const std::vector<at::Tensor> parameters = program->parameters();
      REQUIRE(parameters.size() == 2 * layers.size());
      const Agreement agreement = compare_parameters(plan.spec, options, first, layers, parameters,
                                                     train_reference(plan.spec, options, first, kSteps));
      CHECK(agreement.smallest_change > 1e-5);
      CHECK(agreement.equal);
    }
  }
}

TEST_CASE("Replicas that are processes, NCCL", "[gpu][pipeline][data_parallel]") {
  if (!enough_gpus(4)) return;
  const TemporaryFolder folder;
  const Process run =
      run_program("pdl-run",
                  "--gpus 4 --pp 2 --dp 2 --dim 256 --depth 4 --batch 64 --microbatches 4 --workers process "
                  "--transport nccl --steps 5 --check --learning-rate 10 --schedule 1f1b --accum 2",
                  folder);
  INFO(run.err);
  CHECK(run.exit_code == 0);
}

TEST_CASE("Workers that are processes, NCCL", "[gpu][pipeline]") {
  if (!enough_gpus(2)) return;
  for (const std::string schedule : {"1f1b", "zb-v"}) {
    const TemporaryFolder folder;
    const Process run =
        run_program("pdl-run",
                    "--gpus 2 --dim 256 --depth 4 --batch 64 --microbatches 4 --workers process "
                    "--transport nccl --steps 5 --check --learning-rate 10 --json run.json --schedule " +
                        schedule,
                    folder);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(read_run(folder / "run.json").peak_memory_bytes.size() == 2);
  }
}

TEST_CASE("Spans are on one clock: transfers follow what they carry", "[gpu][pipeline]") {
  if (!enough_gpus(2)) return;
  for (const std::string schedule : {"gpipe", "1f1b", "zb-v", "gpipe --recompute 1"}) {
    const Plan plan =
        make_plan(spec("--dim 2048 --depth 8 --batch 2048 --gpus 2 --microbatches 4 --schedule " + schedule));
    auto program = make_pipeline_program(plan, gpu_options());
    SpanRecorder recorder(plan.graph, gpu_options());
    program->step(nullptr);
    recorder.begin_step();
    program->step(&recorder);
    recorder.end_step();
    const RecordedStep& step = recorder.recorded();
    CHECK(step.clock_uncertainty_us > 0);
    CHECK(step.clock_uncertainty_us < 50);
    const auto tolerance_ns = static_cast<std::int64_t>(2 * step.clock_uncertainty_us * 1e3) + 2000;
    for (TaskId t = 0; t < step.times.size(); ++t) {
      CHECK(step.times[t].end_ns > step.times[t].start_ns);
      for (const TaskId next : plan.graph.edges.after(t))
        CHECK(step.times[t].end_ns <= step.times[next].start_ns + tolerance_ns);
    }
  }
}

TEST_CASE("Recording costs less than 1 % of the step", "[gpu][pipeline]") {
  const int gpus = std::min(gpu_count(), 4);
  if (!enough_gpus(1)) return;
  const Plan plan = make_plan(
      spec("--dim 4096 --depth 16 --batch 4096 --microbatches 8 --schedule 1f1b --gpus " + std::to_string(gpus)));
  RuntimeOptions options = gpu_options();
  options.learning_rate = 0.01;
  options.recorded_steps = 15;
  auto program = make_pipeline_program(plan, options);
  const RunResult run = measure_run(plan, options, *program, "test", nullptr);
  CHECK(run.extra["recording"]["overhead_fraction"].get<double>() < 0.01);
  CHECK(run.peak_memory_bytes.size() == static_cast<std::size_t>(gpus));
  CHECK(*run.step_time.p75_ms < 1.05 * *run.step_time.p25_ms);
}

TEST_CASE("More GPUs than there are", "[gpu][pipeline]") {
  if (!enough_gpus(1)) return;
  const TemporaryFolder folder;
  const Process run = run_program("pdl-run", "--device cuda --gpus 1000 --depth 1000 --dim 8", folder);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("--gpus: found 1000, expected at most " + std::to_string(gpu_count())));
}
