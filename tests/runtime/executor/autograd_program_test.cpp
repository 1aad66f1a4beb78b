#include "runtime/executor/autograd_program.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/measure/span_recorder.hpp"
#include "runtime/model/initial_values.hpp"
#include "sim/spec/error.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

struct Case {
  const char* program;  // "mp", or a schedule with --workers one
  int gpus;
  int depth;
  int batch;
  int microbatches;
};

Plan plan_of(const Case& c, const std::string& optimizer, int dim = 8, const std::string& dtype = "fp32") {
  std::vector<SettingValue> words = {{"gpus", std::to_string(c.gpus), "gpus"},
                                     {"depth", std::to_string(c.depth), "depth"},
                                     {"dim", std::to_string(dim), "dim"},
                                     {"batch", std::to_string(c.batch), "batch"},
                                     {"microbatches", std::to_string(c.microbatches), "microbatches"},
                                     {"optimizer", optimizer, "optimizer"},
                                     {"dtype", dtype, "dtype"}};
  if (std::string(c.program) == "mp") {
    words.push_back({"strategy", "mp", "strategy"});
  } else {
    words.push_back({"schedule", c.program, "schedule"});
    words.push_back({"workers", "one", "workers"});
  }
  return make_plan(parse_run_spec(words));
}

/// A learning rate so large that the parameters visibly move in a few steps.
RuntimeOptions cpu_options(const std::string& optimizer) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = 7;
  options.learning_rate = optimizer == "adam" ? 0.01 : 1.0;
  return options;
}

struct Trained {
  std::vector<torch::Tensor> initial, parameters;
  double loss = 0;
};

/// The same model on one device with the whole batch: LibTorch's modules and optimizers, nothing of the runtime but the
/// numbers that it starts from.
Trained reference(const Plan& plan, const RuntimeOptions& options) {
  std::vector<torch::nn::Linear> layers;
  std::vector<torch::Tensor> parameters;
  Trained trained;
  for (std::size_t l = 0; l < plan.spec.model.layers.size(); ++l) {
    torch::nn::Linear layer(plan.spec.model.layers[l].in_features, plan.spec.model.layers[l].out_features);
    {
      const torch::NoGradGuard no_grad;
      initialise_layer(layer->weight, layer->bias, static_cast<std::int64_t>(l), options.seed);
    }
    for (const torch::Tensor& parameter : {layer->weight, layer->bias}) {
      parameters.push_back(parameter);
      trained.initial.push_back(parameter.detach().clone());
    }
    layers.push_back(layer);
  }
  const Batch batch = make_batch(plan.spec.batch, plan.spec.model.layers.front().in_features,
                                 plan.spec.model.layers.back().out_features, at::kCPU, options.seed);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (plan.spec.optimizer == Optimizer::sgd) {
    optimizer = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(options.learning_rate));
  } else {
    optimizer = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(options.learning_rate));
  }
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    torch::Tensor x = batch.input;
    for (torch::nn::Linear& layer : layers) x = torch::relu(layer(x));
    const torch::Tensor loss = torch::nn::functional::mse_loss(x, batch.target);
    loss.backward();
    trained.loss = loss.item<double>();
    optimizer->step();
  }
  for (const torch::Tensor& parameter : parameters) trained.parameters.push_back(parameter.detach().clone());
  return trained;
}

/// Equal to a small part of how far the reference moved.
void require_same_training(const std::vector<torch::Tensor>& parameters, const Trained& expected) {
  REQUIRE(parameters.size() == expected.parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double moved = (expected.parameters[i] - expected.initial[i]).abs().max().item<double>();
    const double off = (expected.parameters[i] - parameters[i]).abs().max().item<double>();
    INFO("parameter " << i << " moved by " << moved << ", is off by " << off);
    CHECK(moved > 1e-4);
    CHECK(off < 1e-3 * moved);
  }
}

}  // namespace

TEST_CASE("Autograd programs train as one device with the whole batch does", "[runtime][autograd]") {
  const std::vector<Case> cases = {
      {"mp", 1, 4, 12, 1},    {"mp", 2, 4, 12, 1},    {"mp", 3, 4, 12, 1},    {"mp", 4, 5, 12, 1},
      {"mp", 2, 4, 10, 4},                                                       // 3 3 3 1 samples
      {"naive", 2, 4, 12, 3}, {"naive", 4, 6, 13, 4},                            // 4 4 4 1 samples
      {"gpipe", 1, 4, 12, 3}, {"gpipe", 2, 4, 12, 4}, {"gpipe", 3, 5, 10, 4}, {"gpipe", 4, 4, 7, 7},
  };
  for (const std::string optimizer : {"sgd", "adam"}) {
    const RuntimeOptions options = cpu_options(optimizer);
    for (const Case& c : cases) {
      INFO(optimizer << ", " << c.program << ", " << c.gpus << " GPUs, depth " << c.depth << ", batch " << c.batch
                     << " in " << c.microbatches);
      const Plan plan = plan_of(c, optimizer);
      const Trained expected = reference(plan, options);
      auto program = make_autograd_program(plan, options);
      for (int step = 0; step < kSteps; ++step) program->step(nullptr);
      require_same_training(program->parameters(), expected);
      CHECK(program->loss() == Approx(expected.loss).epsilon(1e-4));
    }
  }
}

TEST_CASE("An autograd program before its first step has its initial parameters and no loss", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const Plan plan = plan_of({"mp", 2, 3, 4, 1}, "sgd");
  const Trained expected = reference(plan, options);
  auto program = make_autograd_program(plan, options);
  const std::vector<torch::Tensor> parameters = program->parameters();
  REQUIRE(parameters.size() == 6);
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(torch::equal(parameters[i], expected.initial[i]));
  CHECK(std::isnan(program->loss()));
}

TEST_CASE("Recorded spans of an autograd program follow one another in the order of the plan", "[runtime][autograd]") {
  for (const Case& c : {Case{"mp", 3, 4, 6, 1}, Case{"naive", 2, 4, 6, 2}, Case{"gpipe", 3, 4, 6, 2}, Case{"gpipe", 1, 2, 6, 2}}) {
    INFO(c.program << ", " << c.gpus << " GPUs");
    const RuntimeOptions options = cpu_options("sgd");
    const Plan plan = plan_of(c, "sgd");
    auto program = make_autograd_program(plan, options);
    SpanRecorder recorder(plan.graph, options);
    for (int step = 0; step < 2; ++step) {
      recorder.begin_step();
      const std::int64_t begin = steady_now_ns();
      program->step(&recorder);
      const std::int64_t end = steady_now_ns();
      recorder.end_step();
      // On CPU one thing is done at a time: each task begins after the one before it; the two halves of a transfer are one.
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

TEST_CASE("All of a stage's backward lies inside its span, none of it in the gradient's transfer", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const Plan plan = plan_of({"mp", 2, 4, 64, 1}, "sgd", 512);
  auto program = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  program->step(nullptr);
  // The shortest of a few: this host may be busy with other things.
  std::int64_t transfer_ns = INT64_MAX, backward_ns = INT64_MAX;
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
  const Plan plan = plan_of({"gpipe", 3, 4, 10, 3}, "adam");
  auto plain = make_autograd_program(plan, options);
  auto recorded = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  for (int step = 0; step < 3; ++step) {
    plain->step(nullptr);
    recorder.begin_step();
    recorded->step(&recorder);
    recorder.end_step();
  }
  const std::vector<torch::Tensor> a = plain->parameters(), b = recorded->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(torch::equal(a[i], b[i]));
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
  const Plan good = plan_of({"mp", 2, 2, 4, 1}, "sgd");
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

TEST_CASE("A plan of several host threads, or with autocast, is refused", "[runtime][autograd]") {
  const RuntimeOptions options = cpu_options("sgd");
  const std::vector<SettingValue> words = {
      {"gpus", "2", "gpus"}, {"depth", "2", "depth"}, {"dim", "8", "dim"}, {"schedule", "1f1b", "schedule"}};
  CHECK_THROWS_AS(make_autograd_program(make_plan(parse_run_spec(words)), options), CannotRun);
  CHECK_THROWS_AS(make_autograd_program(plan_of({"mp", 2, 2, 4, 1}, "sgd", 8, "amp-bf16"), options), InputError);
}
