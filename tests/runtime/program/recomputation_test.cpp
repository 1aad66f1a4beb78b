// Layers that are run again train exactly as those that keep everything, and their recorded spans are the plan's tasks.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "runtime/model/autocast.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/program/autograd_program.hpp"
#include "runtime/program/ddp_program.hpp"
#include "sim/cost/host_calls.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/transformer_models.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 3;

RuntimeOptions cpu_options() {
  RuntimeOptions options = cpu_training("sgd", 7);
  options.learning_rate = .1;
  options.rank = 0;
  return options;
}

std::unique_ptr<StepProgram> make_program(const Plan& plan) {
  if (plan.parallel.program == Program::ddp)
    return make_ddp_program(plan, cpu_options(), c10::make_intrusive<c10d::HashStore>(), /*one_host=*/true, nullptr);
  return make_autograd_program(plan, cpu_options());
}

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
};

/// Dropout draws from LibTorch's generator: the same numbers in every training.
Trained train(const Plan& plan) {
  const auto program = make_program(plan);
  at::manual_seed(3);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    program->step(nullptr);
    trained.losses.push_back(program->loss());
  }
  trained.parameters = program->parameters();
  return trained;
}

void check_trains_the_same(const RunSpec& kept) {
  RunSpec again = kept;
  again.recompute = true;
  INFO(describe(again));
  const Plan plan = make_plan(again);
  REQUIRE(has_work(plan, TaskKind::recompute));
  const Trained a = train(make_plan(kept)), b = train(plan);
  CHECK(a.losses == b.losses);
  CHECK(a.losses.front() != a.losses.back());
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) CHECK(at::equal(a.parameters[i], b.parameters[i]));
}

const std::string kOneThread = "--strategy single --workers one --gpus 1 ";
/// DDP on the CPU needs Gloo, and its headers are not everywhere. Of buckets that are full inside of a layer.
#if PDL_GLOO
const std::vector<std::string> kPrograms = {
    kOneThread, kOneThread + "--microbatches 2 --accum 2 ",
    "--strategy ddp --gpus 1 --transport gloo --bucket-mb 0.001 --first-bucket-mb 0.001 ",
    "--strategy ddp --gpus 1 --transport gloo --accum 2 --no-sync 1 "};
#else
const std::vector<std::string> kPrograms = {kOneThread, kOneThread + "--microbatches 2 --accum 2 "};
#endif

}  // namespace

TEST_CASE("Layers that are run again train exactly as those that keep everything", "[runtime][recomputation]") {
  for (const std::string& program : kPrograms) {
    for (const std::string dtype : {"fp32", "amp-bf16"}) {
      const std::string flags = program + "--batch 8 --dtype " + dtype;
      check_trains_the_same(spec(flags + " --dim 32 --depth 3"));
      for (const std::vector<Layer>& layers : mixed_layers(8))
        check_trains_the_same(with_layers(spec(flags + " --dim 8 --depth 11"), layers));
      for (const Model& model : {tiny_gpt(0, 10), tiny_gpt(1), tiny_llama()})
        check_trains_the_same(with_model(spec(flags + " --depth 4 --dim 64"), model));
    }
  }
}

TEST_CASE("Recorded spans of forwards that are run again stand in the order of the plan", "[runtime][recomputation]") {
  for (const std::string& program : kPrograms) {
    const bool ddp = program.find("ddp") != std::string::npos;
    for (const bool blocks : {false, true}) {
      const RunSpec run = spec(program + "--batch 8 --recompute 1 --depth 4 --dim 64");
      const Plan plan = make_plan(blocks ? with_model(run, tiny_gpt()) : run);
      INFO(describe(plan.spec));
      const auto recorded = make_program(plan);
      SpanRecorder recorder(plan.graph, cpu_options());
      recorder.begin_step();
      const std::int64_t begin = steady_now_ns();
      recorded->step(&recorder);
      recorder.end_step();
      std::int64_t done = begin;
      for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
        const Task& task = plan.graph.tasks[t];
        const TaskTimes& times = recorder.recorded().times[t];
        INFO("task " << t << ", " << task_name(task.kind, 0, task.microbatch, false, task.part));
        CHECK(times.start_ns >= begin);
        CHECK(times.end_ns >= times.start_ns);
        if (!is_compute(task.kind)) continue;  // buckets are full inside of a part, too
        CHECK((ddp ? times.start_ns >= begin : times.start_ns >= done));
        done = times.end_ns;
      }
      const auto plain = make_program(plan), another = make_program(plan);
      check_recording_changes_nothing(*plain, *another, recorder);
    }
  }
}

namespace {

/// Names what it is told.
struct Told : RecomputationWatcher {
  std::string text;
  void recomputation_begins(int layer) override { text += "begins " + std::to_string(layer) + ", "; }
  void recomputation_ends(int layer) override { text += "ends " + std::to_string(layer) + ", "; }
  void backward_ends(int layer) override { text += "backward " + std::to_string(layer) + ", "; }
};

}  // namespace

TEST_CASE("A checkpointed layer keeps nothing, runs again once and stops early", "[runtime][recomputation]") {
  const at::Tensor x = at::rand({4, 4}).set_requires_grad(true), w = at::rand({4, 4}).set_requires_grad(true);
  int exponentials = 0, products = 0;
  const auto layer = [&](const at::Tensor& input) {
    const at::Tensor inner = input.exp();  // keeps its result
    ++exponentials;
    const at::Tensor product = inner.mm(w);  // keeps what goes into it: nothing behind here is read
    ++products;
    return product + input;
  };
  Told told;
  const at::Tensor y = checkpointed(layer, x, {.layer = 5, .watcher = &told});
  CHECK(told.text.empty());
  y.sum().backward();
  CHECK(told.text == "begins 5, ends 5, backward 5, ");
  CHECK(exponentials == 2);
  CHECK(products == 1);
  const at::Tensor gradient = x.grad().clone(), of_weight = w.grad().clone();
  x.mutable_grad().reset();
  w.mutable_grad().reset();
  layer(x).sum().backward();
  CHECK(at::equal(gradient, x.grad()));
  CHECK(at::equal(of_weight, w.grad()));
}

TEST_CASE("A forward that is run again is under the autocast of the first one", "[runtime][recomputation]") {
  const at::Tensor x = at::rand({4, 4}).set_requires_grad(true), w = at::rand({4, 4}).set_requires_grad(true);
  std::vector<at::ScalarType> types;
  const auto layer = [&](const at::Tensor& input) {
    const at::Tensor product = input.mm(w);
    types.push_back(product.scalar_type());
    return product.exp();
  };
  at::Tensor y;
  {
    const Autocast autocast(Dtype::amp_bf16, at::kCPU);
    y = checkpointed(layer, x, {});
  }
  y.to(at::kFloat).sum().backward();
  CHECK(types == std::vector<at::ScalarType>{at::kBFloat16, at::kBFloat16});
}
