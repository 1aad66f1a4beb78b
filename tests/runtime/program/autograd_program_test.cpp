#include "runtime/program/autograd_program.hpp"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/model/initial_values.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

Plan plan_of(const std::string& flags) {
  return make_plan(spec("--dim 8 " + flags));
}

RuntimeOptions cpu_options(const std::string& optimizer) {
  return cpu_training(optimizer, 7);
}

/// As train_reference, and what the loss of its last step was.
struct Trained {
  std::vector<at::Tensor> parameters;
  double loss = 0;
};

Trained train_on_one_device(const Plan& plan, const RuntimeOptions& options, int steps) {
  const std::vector<at::Tensor> before = train_reference(plan.spec, options, at::kCPU, steps - 1);
  const Batch batch = make_batch(plan.spec.model, plan.spec.batch, at::kCPU, options.seed);
  at::Tensor x = batch.input;
  for (std::size_t i = 0; i < before.size(); i += 2) x = at::relu(at::linear(x, before[i], before[i + 1]));
  return {train_reference(plan.spec, options, at::kCPU, steps), at::mse_loss(x, batch.target).item<double>()};
}

}  // namespace

TEST_CASE("Autograd programs train layers of every kind as one device does", "[runtime][autograd]") {
  for (const std::vector<Layer>& layers : mixed_layers(8)) {
    if (!trains_alike(layers)) continue;
    for (const std::string program :
         {"--strategy mp --gpus 3", "--schedule gpipe --workers one --gpus 6 --microbatches 4"}) {
      const Plan plan = make_plan(with_layers(spec("--dim 8 --depth 11 --batch 13 " + program), layers));
      const RuntimeOptions options = cpu_options("sgd");
      auto trained = make_autograd_program(plan, options);
      for (int step = 0; step < kSteps; ++step) trained->step(nullptr);
      const Agreement agreement = compare_parameters(plan.spec, options, at::kCPU, {}, trained->parameters(),
                                                     train_reference(plan.spec, options, at::kCPU, kSteps));
      CHECK(agreement.smallest_change > 1e-4);
      CHECK(agreement.equal);
    }
  }
}

TEST_CASE("Autograd programs train as one device with the whole batch does", "[runtime][autograd]") {
  const std::vector<std::string> programs = {
      "--strategy mp --microbatches 1 --gpus 1 --depth 4 --batch 12",
      "--strategy mp --microbatches 1 --gpus 2 --depth 4 --batch 12",
      "--strategy mp --microbatches 1 --gpus 3 --depth 4 --batch 12",
      "--strategy mp --microbatches 1 --gpus 4 --depth 5 --batch 12",
      "--strategy mp --microbatches 4 --gpus 2 --depth 4 --batch 10",  // 3 3 3 1 samples
      "--schedule naive --workers one --microbatches 3 --gpus 2 --depth 4 --batch 12",
      "--schedule naive --workers one --microbatches 4 --gpus 4 --depth 6 --batch 13",  // 4 4 4 1
      "--schedule gpipe --workers one --microbatches 3 --gpus 1 --depth 4 --batch 12",
      "--schedule gpipe --workers one --microbatches 4 --gpus 2 --depth 4 --batch 12",
      "--schedule gpipe --workers one --microbatches 4 --gpus 3 --depth 5 --batch 10",
      "--schedule gpipe --workers one --microbatches 7 --gpus 4 --depth 4 --batch 7",
      "--schedule option-c --workers one --microbatches 1 --gpus 2 --depth 4 --batch 12",
      "--schedule option-c --workers one --microbatches 4 --gpus 3 --depth 5 --batch 10",
      "--schedule option-c --workers one --microbatches 7 --gpus 4 --depth 4 --batch 7",
  };
  for (const std::string optimizer : {"sgd", "adam", "adamw", "adamw-fused"}) {
    const RuntimeOptions options = cpu_options(optimizer);
    for (const std::string& flags : programs) {
      INFO(flags << " --optimizer " << optimizer);
      const Plan plan = plan_of(flags + " --optimizer " + optimizer);
      const Trained expected = train_on_one_device(plan, options, kSteps);
      auto program = make_autograd_program(plan, options);
      for (int step = 0; step < kSteps; ++step) program->step(nullptr);
      const Agreement agreement =
          compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(), expected.parameters);
      // The training has gone far against its difference, or any two would be equal.
      CHECK(agreement.smallest_change > 1e-3);
      CHECK(agreement.relative_difference < 1e-3);
      CHECK(program->loss() == Approx(expected.loss).epsilon(1e-4));
    }
  }
}

TEST_CASE("An autograd program before its first step has its initial parameters and no loss", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const Plan plan = plan_of("--strategy mp --microbatches 1 --gpus 2 --depth 3 --batch 4");
  const std::vector<at::Tensor> expected = train_reference(plan.spec, options, at::kCPU, 0);
  auto program = make_autograd_program(plan, options);
  const std::vector<at::Tensor> parameters = program->parameters();
  REQUIRE(parameters.size() == 6);
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(at::equal(parameters[i], expected[i]));
  CHECK(std::isnan(program->loss()));
}

TEST_CASE("Recorded spans of an autograd program follow one another in the order of the plan", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const std::vector<std::string> programs = {
      "--strategy mp --microbatches 1 --gpus 3", "--schedule naive --microbatches 2 --gpus 2",
      "--schedule gpipe --microbatches 2 --gpus 3", "--schedule gpipe --microbatches 2 --gpus 1",
      "--schedule option-c --microbatches 3 --gpus 2"};
  for (const std::string& flags : programs) {
    INFO(flags);
    const Plan plan = plan_of(flags + " --workers one --depth 4 --batch 6");
    auto program = make_autograd_program(plan, options);
    SpanRecorder recorder(plan.graph, options);
    for (int step = 0; step < 2; ++step) {
      recorder.begin_step();
      const std::int64_t begin = steady_now_ns();
      program->step(&recorder);
      const std::int64_t end = steady_now_ns();
      recorder.end_step();
      // On CPU one thing is done at a time: a task begins after the one before it; a transfer's two halves are one.
      std::int64_t done = begin;
      const std::vector<TaskTimes>& times = recorder.recorded().times;
      REQUIRE(times.size() == plan.graph.tasks.size());
      for (TaskId t = 0; t < times.size(); ++t) {
        const Task& task = plan.graph.tasks[t];
        INFO("task " << t << ", " << task_name(task.kind, task.stage, task.microbatch, true));
        const bool second_half = task.kind == TaskKind::receive_forward || task.kind == TaskKind::receive_backward;
        CHECK(times[t].start_ns >= (second_half ? times[t - 1].start_ns : done));
        CHECK(times[t].end_ns >= times[t].start_ns);
        done = times[t].end_ns;
      }
      CHECK(done <= end);
    }
  }
}

TEST_CASE("All of a stage's backward lies inside its span, none in the gradient's transfer", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const Plan plan = make_plan(spec("--strategy mp --microbatches 1 --gpus 2 --depth 4 --dim 512 --batch 64"));
  auto program = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  program->step(nullptr);
  // The shortest of a few: this host may be busy with other things.
  std::int64_t transfer_ns = std::numeric_limits<std::int64_t>::max(), backward_ns = transfer_ns;
  for (int step = 0; step < 5; ++step) {
    recorder.begin_step();
    program->step(&recorder);
    recorder.end_step();
    for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
      const std::int64_t ns = recorder.recorded().times[t].end_ns - recorder.recorded().times[t].start_ns;
      if (plan.graph.tasks[t].kind == TaskKind::send_backward) transfer_ns = std::min(transfer_ns, ns);
      if (plan.graph.tasks[t].kind == TaskKind::backward) backward_ns = std::min(backward_ns, ns);
    }
  }
  // 64 x 512 numbers copied, against 4 products of 64 x 512 x 512.
  CHECK(transfer_ns * 2 < backward_ns);
}

TEST_CASE("Recording does not change what is trained", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("adam");
  const Plan plan =
      plan_of("--schedule gpipe --workers one --microbatches 3 --gpus 3 --depth 4 --batch 10 --optimizer adam");
  auto plain = make_autograd_program(plan, options);
  auto recorded = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  check_recording_changes_nothing(*plain, *recorded, recorder);
}

namespace {

/// The tasks of the plan in another order; `order` may leave some out. Edges are not needed here.
Plan reordered(Plan plan, const std::vector<TaskId>& order) {
  TaskGraphBuilder builder;
  for (const Work& work : plan.graph.works) builder.add_work(work);
  for (const TaskId t : order) builder.add_task(plan.graph.tasks[t]);
  plan.graph = std::move(builder).build(plan.graph.workers, plan.graph.hosts);
  return plan;
}

}  // namespace

TEST_CASE("Orders that one thread and autograd cannot follow are refused by name", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  // 0F0, send 0F0, receive 1F0, 1F0, 1B0, send 1B0, receive 0B0, 0B0, optimizers
  const Plan good = plan_of("--strategy mp --microbatches 1 --gpus 2 --depth 2 --batch 4");
  REQUIRE(good.graph.tasks.size() == 10);
  const auto refused = [&](const std::vector<TaskId>& order, const std::string& message) {
    CHECK_THROWS_WITH(make_autograd_program(reordered(good, order), options), ContainsSubstring(message));
    CHECK_THROWS_AS(make_autograd_program(reordered(good, order), options), CannotRun);
  };
  refused({3, 0, 1, 2, 4, 5, 6, 7, 8, 9}, "found 1F0 before its input has come");
  refused({0, 1, 3, 2, 4, 5, 6, 7, 8, 9}, "found 1F0, expected");
  refused({0, 1, 2, 4, 3, 5, 6, 7, 8, 9}, "found 1B0 before its forward");
  refused({0, 1, 2, 3, 7, 4, 5, 6, 8, 9}, "found 0B0 before the backward of the stage after it");
  refused({0, 1, 2, 3, 4, 5, 6, 8, 9}, "expected 0B0");
  refused({0, 1, 2, 3, 8, 9}, "micro-batch 0 has no backward");
  CHECK_NOTHROW(make_autograd_program(reordered(good, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), options));
}

TEST_CASE("What an autograd program cannot do is refused before anything is run", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const auto refused = [&](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_AS(make_autograd_program(plan_of("--depth 2 --gpus 2 --batch 8 " + flags), options), InputError);
    CHECK_THROWS_WITH(make_autograd_program(plan_of("--depth 2 --gpus 2 --batch 8 " + flags), options),
                      ContainsSubstring(message));
  };
  refused("--schedule 1f1b", "--workers: found thread, expected one");
  refused("--strategy mp --dtype tf32", "--dtype: found tf32 on CPU");
  refused("--strategy mp --tf 1 --tb 2", "--tf: found synthetic costs");
}

TEST_CASE("Accumulation rounds of one-thread programs train as one round does", "[runtime][data_parallel]") {
  for (const std::string optimizer : {"sgd", "adam"}) {
    const RuntimeOptions options = cpu_options(optimizer);
    for (const std::string flags : {"--strategy single --workers one --microbatches 1 --accum 4",
                                    "--strategy mp --gpus 2 --microbatches 1 --accum 3",
                                    "--schedule gpipe --workers one --gpus 2 --microbatches 4 --accum 2",
                                    "--schedule option-c --workers one --gpus 3 --microbatches 3 --accum 2"}) {
      INFO(flags << " --optimizer " << optimizer);
      const Plan plan = plan_of("--depth 4 --batch 10 " + std::string(flags) + " --optimizer " + optimizer);
      const Trained expected = train_on_one_device(plan, options, kSteps);
      auto program = make_autograd_program(plan, options);
      for (int step = 0; step < kSteps; ++step) program->step(nullptr);
      const Agreement agreement =
          compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(), expected.parameters);
      CHECK(agreement.smallest_change > 1e-3);
      CHECK(agreement.relative_difference < 1e-3);
      CHECK(program->loss() == Approx(expected.loss).epsilon(1e-4));
    }
  }
}

TEST_CASE("The host of a one-thread program sleeps before each backward", "[runtime][data_parallel]") {
  const RuntimeOptions options = cpu_options("sgd");
  const Plan plan = plan_of("--strategy mp --gpus 2 --microbatches 1 --depth 4 --batch 6 --accum 3 --delay-ms 20");
  auto program = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  recorder.begin_step();
  const std::int64_t begin = steady_now_ns();
  program->step(&recorder);
  CHECK(steady_now_ns() - begin >= 60'000'000);
  int sleeps = 0;
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    if (plan.graph.tasks[t].kind != TaskKind::sleep) continue;
    ++sleeps;
    CHECK(recorder.recorded().times[t].end_ns - recorder.recorded().times[t].start_ns >= 20'000'000);
    CHECK(plan.graph.tasks[t + 1].kind == TaskKind::backward);
  }
  CHECK(sleeps == 3);
}

TEST_CASE("Mixed precision of one-thread programs: losses follow fp32, infinite gradients skip the step",
          "[runtime][data_parallel]") {
  RuntimeOptions options = cpu_options("sgd");
  constexpr int kMany = 10;
  for (const std::string flags :
       {"--strategy single --workers one --microbatches 1 --dtype amp-bf16",
        "--strategy mp --gpus 2 --microbatches 1 --dtype amp-fp16 --loss-scale 1024",
        "--schedule option-c --workers one --gpus 2 --microbatches 2 --accum 2 --dtype amp-fp16 --loss-scale 1024"}) {
    INFO(flags);
    const Plan plan = make_plan(spec("--dim 32 --depth 4 --batch 16 " + std::string(flags)));
    options.learning_rate = clear_learning_rate(plan.spec, options, at::kCPU, kMany);
    auto program = make_autograd_program(plan, options);
    std::vector<double> losses;
    for (int step = 0; step < kMany; ++step) {
      program->step(nullptr);
      CHECK_FALSE(program->skipped());
      losses.push_back(program->loss());
    }
    const LossAgreement agreement = compare_losses(losses, reference_losses(plan.spec, options, at::kCPU, kMany, {}));
    CHECK(agreement.equal);
    CHECK(agreement.relative_difference > 1e-7);
  }
  const Plan plan =
      plan_of("--strategy mp --gpus 2 --microbatches 1 --depth 4 --batch 4 --dtype amp-fp16 --loss-scale 1e9");
  auto program = make_autograd_program(plan, options);
  const std::vector<at::Tensor> before = program->parameters();
  program->step(nullptr);
  CHECK(program->skipped());
  CHECK(*program->loss_scale() == 5e8);
  const std::vector<at::Tensor> after = program->parameters();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(at::equal(before[i], after[i]));
}
