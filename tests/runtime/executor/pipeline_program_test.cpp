#include "runtime/executor/pipeline_program.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/measure/span_recorder.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/model/reference_training.hpp"
#include "sim/spec/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

/// A learning rate so large that the parameters visibly move in a few steps.
RuntimeOptions cpu_options(const std::string& optimizer = "sgd") {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = 11;
  options.learning_rate = optimizer == "adam" ? 0.01 : 1.0;
  return options;
}

Agreement train(const std::string& flags, const RuntimeOptions& options) {
  const Plan plan = make_plan(spec("--dim 8 " + flags));
  auto program = make_pipeline_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  return compare_parameters(plan.spec, options, at::kCPU, 0, program->parameters(),
                            train_reference(plan.spec, options, at::kCPU, kSteps));
}

void check_equal(const std::string& flags, const std::string& optimizer = "sgd") {
  INFO(flags);
  const Agreement agreement = train(flags + " --optimizer " + optimizer, cpu_options(optimizer));
  CHECK(agreement.smallest_change > 1e-3);  // else equality would say nothing
  CHECK(agreement.equal);
}

std::string message_of(const std::string& flags, RuntimeOptions options) {
  try {
    make_pipeline_program(make_plan(spec("--dim 8 --depth 4 --batch 8 " + flags)), options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("Every schedule trains as one device with the whole batch does", "[runtime][pipeline]") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
    for (const int workers : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 2, 5, 8}) {
        check_equal("--depth 4 --batch 16 --schedule " + schedule + " --gpus " + std::to_string(workers) +
                    " --microbatches " + std::to_string(microbatches));
      }
    }
  }
}

TEST_CASE("Layers and samples that do not divide, and Adam", "[runtime][pipeline]") {
  for (const std::string optimizer : {"sgd", "adam"}) {
    check_equal("--depth 7 --batch 13 --microbatches 4 --gpus 3 --schedule 1f1b", optimizer);   // 4 4 4 1 samples
    check_equal("--depth 5 --batch 10 --microbatches 6 --gpus 4 --schedule gpipe", optimizer);  // 2 2 2 2 2 samples
    check_equal("--depth 3 --batch 9 --microbatches 2 --gpus 1 --strategy single", optimizer);
  }
}

TEST_CASE("Gloo messages between threads", "[runtime][pipeline]") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
    check_equal("--depth 6 --batch 14 --microbatches 4 --gpus 3 --transport gloo --schedule " + schedule);
  }
}

TEST_CASE("The comparison notices a training that is wrong", "[runtime][pipeline]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 16 --schedule 1f1b --gpus 2 --microbatches 4"));
  const RuntimeOptions options = cpu_options();
  const std::vector<at::Tensor> expected = train_reference(plan.spec, options, at::kCPU, kSteps);
  auto program = make_pipeline_program(plan, options);
  for (int step = 0; step + 1 < kSteps; ++step) program->step(nullptr);
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, 0, program->parameters(), expected).equal);
  program->step(nullptr);
  std::vector<at::Tensor> parameters = program->parameters();
  CHECK(compare_parameters(plan.spec, options, at::kCPU, 0, parameters, expected).equal);
  parameters[3] = parameters[3] * 1.01;  // the bias of layer 1
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, 0, parameters, expected).equal);
  parameters[3][0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, 0, parameters, expected).equal);
}

TEST_CASE("The loss is that of the whole batch, before the update", "[runtime][pipeline]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 10 --schedule gpipe --gpus 2 --microbatches 4"));
  const RuntimeOptions options = cpu_options();
  auto program = make_pipeline_program(plan, options);
  program->step(nullptr);
  program->step(nullptr);
  const std::vector<at::Tensor> after_one = train_reference(plan.spec, options, at::kCPU, 1);
  const Batch batch = make_batch(10, 8, 8, at::kCPU, options.seed);
  at::Tensor x = batch.input;
  for (std::size_t i = 0; i < after_one.size(); i += 2) x = at::relu(at::linear(x, after_one[i], after_one[i + 1]));
  CHECK(program->loss() == Approx(at::mse_loss(x, batch.target).item<double>()).epsilon(1e-5));
}

TEST_CASE("Every task is recorded, after those that it depends on", "[runtime][pipeline]") {
  for (const std::string flags : {"--schedule 1f1b", "--schedule gpipe --transport gloo"}) {
    const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 16 --gpus 3 --microbatches 4 " + flags));
    const RuntimeOptions options = cpu_options();
    auto program = make_pipeline_program(plan, options);
    SpanRecorder recorder(plan.graph, options);
    program->step(nullptr);
    const std::int64_t before = steady_now_ns();
    recorder.begin_step();
    program->step(&recorder);
    recorder.end_step();
    const std::int64_t after = steady_now_ns();
    const std::vector<TaskTimes>& times = recorder.recorded().times;
    REQUIRE(times.size() == plan.graph.tasks.size());
    for (TaskId t = 0; t < times.size(); ++t) {
      CHECK(before <= times[t].start_ns);
      CHECK(times[t].start_ns <= times[t].end_ns);
      CHECK(times[t].end_ns <= after);
      const auto [begin, end] = boost::out_edges(t, plan.graph.edges);
      for (auto e = begin; e != end; ++e) CHECK(times[t].end_ns <= times[boost::target(*e, plan.graph.edges)].start_ns);
    }
  }
}

TEST_CASE("What the pipeline program cannot do is refused", "[runtime][pipeline]") {
  const RuntimeOptions options = cpu_options();
  CHECK_THAT(message_of("--gpus 2 --transport nccl", options), ContainsSubstring("--transport: found nccl on CPU"));
  CHECK_THAT(message_of("--gpus 2 --workers process", options), ContainsSubstring("--workers thread"));
  CHECK_THAT(message_of("--gpus 2 --workers one", options), ContainsSubstring("--workers: found one"));
  CHECK_THAT(message_of("--gpus 2 --tf 1 --tb 2", options), ContainsSubstring("synthetic"));
  CHECK_THAT(message_of("--gpus 2 --dtype amp-bf16", options), ContainsSubstring("--dtype: found amp-bf16"));
  CHECK_THAT(message_of("--gpus 2 --dtype tf32", options), ContainsSubstring("--dtype: found tf32 on CPU"));
}
