#include "runtime/program/dp_program.hpp"

#include <ATen/ATen.h>

#include <cmath>
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
  return make_plan(spec("--strategy dp --dim 8 --depth 4 " + flags));
}

RuntimeOptions cpu_options(const std::string& optimizer = "sgd") {
  return cpu_training(optimizer, 7);
}

double reference_loss(const Plan& plan, const RuntimeOptions& options, int steps_before) {
  const std::vector<at::Tensor> parameters = train_reference(plan.spec, options, at::kCPU, steps_before);
  const Batch batch = make_batch(plan.spec.model, plan.spec.batch, at::kCPU, options.seed);
  at::Tensor x = batch.input;
  for (std::size_t i = 0; i < parameters.size(); i += 2) x = at::relu(at::linear(x, parameters[i], parameters[i + 1]));
  return at::mse_loss(x, batch.target).item<double>();
}

/// Of this plan.
Agreement train(const Plan& plan, const RuntimeOptions& options) {
  auto program = make_dp_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  return compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(),
                            train_reference(plan.spec, options, at::kCPU, kSteps));
}

void check_equal(const std::string& flags, const std::string& optimizer) {
  INFO(flags << " --optimizer " << optimizer);
  const Plan plan = plan_of(flags + " --optimizer " + optimizer);
  const RuntimeOptions options = cpu_options(optimizer);
  auto program = make_dp_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  const Agreement agreement = compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(),
                                                 train_reference(plan.spec, options, at::kCPU, kSteps));
  CHECK(agreement.smallest_change > 1e-3);  // else equality would say nothing
  CHECK(agreement.equal);
  CHECK(program->loss() == Approx(reference_loss(plan, options, kSteps - 1)).epsilon(1e-4));
}

}  // namespace

TEST_CASE("DataParallel trains layers of every kind as one device does", "[runtime][data_parallel]") {
  for (const std::vector<Layer>& layers : mixed_layers(8)) {
    if (!trains_alike(layers)) continue;
    const Plan plan = make_plan(with_layers(spec("--strategy dp --gpus 3 --dim 8 --depth 11 --batch 13"), layers));
    const Agreement agreement = train(plan, cpu_options());
    CHECK(agreement.smallest_change > 1e-4);
    CHECK(agreement.equal);
  }
}

namespace {

/// The times of every task of a second step.
std::vector<TaskTimes> record(const Plan& plan, const RuntimeOptions& options) {
  auto program = make_dp_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  program->step(nullptr);
  recorder.begin_step();
  program->step(&recorder);
  recorder.end_step();
  return recorder.recorded().times;
}

template <typename Error = InputError>
std::string message_of(const std::string& flags, const RuntimeOptions& options) {
  try {
    make_dp_program(make_plan(spec("--dim 8 --depth 4 " + flags)), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("DataParallel trains as one device with the whole batch does", "[runtime][data_parallel]") {
  for (const std::string optimizer : {"sgd", "adam"}) {
    for (const std::string accum : {"", " --accum 4"}) {
      check_equal("--gpus 1 --batch 10" + accum, optimizer);
      check_equal("--gpus 2 --batch 10" + accum, optimizer);
      check_equal("--gpus 3 --batch 10" + accum, optimizer);
      check_equal("--gpus 4 --batch 10" + accum, optimizer);                   // 3 3 3 1 samples
      check_equal("--gpus 4 --batch 9" + accum, optimizer);                    // 3 3 3 and one GPU idle
      check_equal("--gpus 2 --batch 14 --microbatches 3" + accum, optimizer);  // 3 3 1 samples of each GPU
      check_equal("--gpus 8 --batch 5" + accum, optimizer);                    // 1 1 1 1 1 and three idle
      check_equal("--gpus 8 --batch 17" + accum, optimizer);                   // 3 3 3 3 3 2 and two idle
    }
  }
  check_equal("--gpus 2 --batch 1", "sgd");  // one GPU has it all
}

TEST_CASE("Parameters that travel in several chunks", "[runtime][data_parallel]") {
  // 2048 x 2048 numbers are 16 MiB: chunks of 10 MiB and more hold one weight each.
  const Plan plan = make_plan(spec("--strategy dp --dim 2048 --depth 3 --gpus 2 --batch 3"));
  CHECK(plan.parameter_chunks.size() > 2);
  RuntimeOptions options = cpu_options();
  options.learning_rate = 100;
  auto program = make_dp_program(plan, options);
  program->step(nullptr);
  const Agreement agreement = compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(),
                                                 train_reference(plan.spec, options, at::kCPU, 1));
  CHECK(agreement.smallest_change > 1e-4);
  CHECK(agreement.equal);
}

TEST_CASE("Every task of DataParallel is recorded, after those that it depends on", "[runtime][data_parallel]") {
  for (const std::string flags : {"--gpus 1 --batch 4", "--gpus 2 --batch 4", "--gpus 4 --batch 9 --accum 2",
                                  "--gpus 2 --batch 5 --accum 3 --delay-ms 2"}) {
    const Plan plan = plan_of(flags);
    const std::int64_t before = steady_now_ns();
    const std::vector<TaskTimes> times = record(plan, cpu_options());
    const std::int64_t after = steady_now_ns();
    REQUIRE(times.size() == plan.graph.tasks.size());
    for (TaskId t = 0; t < times.size(); ++t) {
      const Task& task = plan.graph.tasks[t];
      INFO(flags << ": task " << t << ", GPU " << task.worker << ", "
                 << task_name(task.kind, task.stage, task.microbatch, true, task.part));
      CHECK(before <= times[t].start_ns);
      CHECK(times[t].start_ns <= times[t].end_ns);
      CHECK(times[t].end_ns <= after);
      // On CPU autograd has one thread: the backwards of replicas follow each other, and all end where the first sum
      // begins.
      for (const TaskId next : plan.graph.edges.after(t)) {
        INFO("before task " << next);
        CHECK(times[t].end_ns <= times[next].start_ns);
      }
    }
  }
}

TEST_CASE("Recording does not change what DataParallel trains", "[runtime][data_parallel]") {
  const Plan plan = plan_of("--gpus 3 --batch 10 --accum 2 --optimizer adam");
  const RuntimeOptions options = cpu_options("adam");
  auto plain = make_dp_program(plan, options), recorded = make_dp_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  check_recording_changes_nothing(*plain, *recorded, recorder);
}

TEST_CASE("Hosts of DataParallel sleep where they are told to", "[runtime][data_parallel]") {
  const Plan plan = plan_of("--gpus 2 --batch 4 --accum 2 --delay-ms 5 --straggler 1:30");
  const std::vector<TaskTimes> times = record(plan, cpu_options());
  int delays = 0, stragglers = 0;
  std::int64_t straggler_end = 0, forward_begin = 0, first_delay_end = 0, first_backward_begin = 0;
  for (TaskId t = 0; t < times.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    const std::int64_t ns = times[t].end_ns - times[t].start_ns;
    if (task.kind == TaskKind::sleep && task.microbatch >= 0) {
      ++delays;
      CHECK(ns >= 5'000'000);
      if (task.microbatch == 0) first_delay_end = times[t].end_ns;
    }
    if (task.kind == TaskKind::sleep && task.microbatch < 0) {
      ++stragglers;
      CHECK(ns >= 30'000'000);
      straggler_end = times[t].end_ns;
    }
    if (task.kind == TaskKind::forward && task.worker == 1 && task.microbatch == 0) forward_begin = times[t].start_ns;
    if (task.kind == TaskKind::backward && task.worker == 0 && task.microbatch == 0)
      first_backward_begin = times[t].start_ns;
  }
  CHECK(delays == 2);
  CHECK(stragglers == 1);
  CHECK(straggler_end <= forward_begin);
  CHECK(first_delay_end <= first_backward_begin);
}

TEST_CASE("Mixed precision of DataParallel follows fp32", "[runtime][data_parallel]") {
  for (const std::string dtype : {"amp-bf16", "amp-fp16"}) {
    INFO(dtype);
    const Plan plan = plan_of("--gpus 3 --batch 10 --dtype " + dtype);
    RuntimeOptions options = cpu_options();
    options.learning_rate = 0.1;
    auto program = make_dp_program(plan, options);
    CHECK(program->loss_scale().has_value() == (dtype == "amp-fp16"));
    for (int step = 0; step < kSteps; ++step) {
      program->step(nullptr);
      CHECK_FALSE(program->skipped());
      const double expected = reference_loss(plan, options, step);
      CHECK(program->loss() == Approx(expected).epsilon(0.01));
      CHECK(program->loss() != expected);  // else nothing was cast
    }
    if (dtype == "amp-fp16") CHECK(*program->loss_scale() == 65536);
  }
}

TEST_CASE("A step of DataParallel with gradients that overflow is skipped", "[runtime][data_parallel]") {
  const Plan plan = plan_of("--gpus 2 --batch 8 --dtype amp-fp16 --loss-scale 1e10");
  auto program = make_dp_program(plan, cpu_options());
  const std::vector<at::Tensor> before = program->parameters();
  program->step(nullptr);
  CHECK(program->skipped());
  CHECK(*program->loss_scale() == Approx(5e9));
  const std::vector<at::Tensor> after = program->parameters();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(at::equal(before[i], after[i]));
}

TEST_CASE("What DataParallel cannot do is refused", "[runtime][data_parallel]") {
  const RuntimeOptions options = cpu_options();
  CHECK_THAT(message_of("--strategy ddp --gpus 2 --transport gloo --batch 8", options),
             ContainsSubstring("--strategy: found ddp"));
  CHECK_THAT(message_of("--strategy dp --gpus 2 --batch 8 --dtype tf32", options),
             ContainsSubstring("--dtype: found tf32 on CPU"));
}
