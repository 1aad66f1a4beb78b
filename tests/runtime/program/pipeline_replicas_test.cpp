// Replicas of a pipeline, and accumulation, on CPU.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "runtime/model/initial_values.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/process.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 4;

RuntimeOptions cpu_options(const std::string& optimizer = "sgd") {
  return cpu_training(optimizer, 11);
}

Plan plan_of(const std::string& flags) {
  return make_plan(spec("--dim 8 --depth 5 " + flags));
}

/// Replica after replica.
std::vector<std::int64_t> layers_of(const Plan& plan) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : plan.stages) {
    for (std::int32_t l = 0; l < stage.layer_count; ++l) layers.push_back(stage.first_layer + l);
  }
  return layers;
}

bool cannot_be_tested() {
#if PDL_GLOO
  return false;
#else
  WARN("test skipped: built without Gloo");
  return true;
#endif
}

void check_equal(const std::string& flags, const std::string& optimizer = "sgd") {
  INFO(flags << " --optimizer " << optimizer);
  const Plan plan = plan_of(flags + " --optimizer " + optimizer);
  const RuntimeOptions options = cpu_options(optimizer);
  auto program = make_pipeline_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  const std::vector<at::Tensor> parameters = program->parameters();
  REQUIRE(parameters.size() == 10 * static_cast<std::size_t>(plan.spec.dp));
  const Agreement agreement = compare_parameters(plan.spec, options, at::kCPU, layers_of(plan), parameters,
                                                 train_reference(plan.spec, options, at::kCPU, kSteps));
  CHECK(agreement.smallest_change > 1e-4);  // else equality would say nothing
  CHECK(agreement.equal);
  // Replicas do not drift apart by a bit.
  for (std::size_t i = 10; i < parameters.size(); ++i) CHECK(at::equal(parameters[i], parameters[i % 10]));

  const std::vector<at::Tensor> before = train_reference(plan.spec, options, at::kCPU, kSteps - 1);
  const Batch batch = make_batch(plan.spec.model, plan.spec.batch, at::kCPU, options.seed);
  at::Tensor x = batch.input;
  for (std::size_t i = 0; i < before.size(); i += 2) x = at::relu(at::linear(x, before[i], before[i + 1]));
  CHECK(program->loss() == Approx(at::mse_loss(x, batch.target).item<double>()).epsilon(1e-4));
}

}  // namespace

TEST_CASE("Replicas of a pipeline train as one device with the whole batch does", "[runtime][data_parallel]") {
  if (cannot_be_tested()) return;
  for (const std::string transport : {"copy", "gloo"}) {
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const std::string rounds : {"", " --accum 2 --no-sync 0", " --accum 2 --no-sync 1"}) {
        check_equal("--gpus 4 --pp 2 --dp 2 --batch 14 --microbatches 3 --transport " + transport + " --schedule " +
                    schedule + rounds);  // 3 3 1
      }
    }
  }
  check_equal("--gpus 4 --pp 2 --dp 2 --batch 24 --microbatches 4 --schedule zb-v --accum 2 --no-sync 0", "adam");
  check_equal("--gpus 4 --pp 2 --dp 2 --batch 24 --microbatches 4 --schedule interleaved --transport gloo --accum 3",
              "adam");
  check_equal("--gpus 6 --pp 2 --dp 3 --batch 12 --microbatches 2 --schedule 1f1b", "adam");
}

TEST_CASE("Accumulation in a pipeline without replicas", "[runtime][data_parallel]") {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "zb-v", "interleaved"}) {
    check_equal("--gpus 2 --batch 14 --microbatches 4 --accum 3 --schedule " + schedule);
  }
  check_equal("--gpus 1 --batch 7 --microbatches 2 --accum 4 --strategy single");
}

TEST_CASE("Every task of replicas is recorded, after those that it depends on", "[runtime][data_parallel]") {
  if (cannot_be_tested()) return;
  const Plan plan = plan_of(
      "--gpus 4 --pp 2 --dp 2 --batch 8 --microbatches 2 --schedule 1f1b --accum 2 --delay-ms 1 --straggler 3:20");
  const RuntimeOptions options = cpu_options();
  auto program = make_pipeline_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  program->step(nullptr);
  recorder.begin_step();
  program->step(&recorder);
  recorder.end_step();
  const std::vector<TaskTimes>& times = recorder.recorded().times;
  int all_reduces = 0, sleeps = 0;
  for (TaskId t = 0; t < times.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    INFO(task_name(task.kind, task.stage, task.microbatch, true, task.part));
    CHECK(times[t].start_ns > 0);
    CHECK(times[t].start_ns <= times[t].end_ns);
    for (const TaskId next : plan.graph.edges.after(t)) CHECK(times[t].end_ns <= times[next].start_ns);
    all_reduces += task.kind == TaskKind::all_reduce;
    if (task.kind != TaskKind::sleep) continue;
    ++sleeps;
    CHECK(times[t].end_ns - times[t].start_ns >= (task.microbatch < 0 ? 20'000'000 : 1'000'000));
  }
  CHECK(all_reduces == 8);     // 4 stages, 2 rounds
  CHECK(sleeps == 4 * 4 + 1);  // a backward of each worker and micro-batch, and the straggler
}

TEST_CASE("Replicas that are processes", "[runtime][data_parallel]") {
  if (cannot_be_tested()) return;
  for (const std::string flags :
       {"--schedule 1f1b", "--schedule zb-h1 --accum 2", "--schedule gpipe --accum 2 --no-sync 1"}) {
    const TemporaryFolder folder;
    const Process run =
        run_program("pdl-run",
                    "--device cpu --gpus 4 --pp 2 --dp 2 --dim 8 --depth 4 --batch 12 --microbatches 3 "
                    "--workers process --transport gloo --warmup 1 --steps 3 --learning-rate 1 --check " +
                        flags,
                    folder);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    for (const std::string worker : {"0", "1", "2", "3"})
      CHECK_THAT(run.err, ContainsSubstring("check of worker " + worker));
  }
}

TEST_CASE("Replicas that are threads, checked by the program itself", "[runtime][data_parallel]") {
  if (cannot_be_tested()) return;
  const TemporaryFolder folder;
  const Process run = run_program("pdl-run",
                                  "--device cpu --gpus 4 --pp 2 --dp 2 --dim 8 --depth 4 --batch 12 --microbatches 3 "
                                  "--warmup 1 --steps 3 --learning-rate 1 --check",
                                  folder);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  const Process data_parallel =
      run_program("pdl-run",
                  "--device cpu --strategy dp --gpus 3 --dim 8 --depth 4 --batch 10 --accum 2 "
                  "--warmup 1 --steps 3 --learning-rate 1 --check",
                  folder);
  INFO(data_parallel.err);
  CHECK(data_parallel.exit_code == 0);
}
