#include "runtime/model/pipeline_stage.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <string>
#include <vector>

#include "runtime/model/initial_values.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

RuntimeOptions cpu_options() {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = 3;
  options.learning_rate = 0.5;
  return options;
}

Plan plan_of(const std::string& flags) {
  return make_plan(spec("--dim 6 --schedule gpipe " + flags));
}

/// The same plan, with a weight gradient of its own: the stage then keeps gradients from one part to the other.
Plan with_split_backward(Plan plan) {
  Work work;
  work.kind = TaskKind::backward_weight;
  plan.graph.works.push_back(work);
  return plan;
}

void fill(const at::Tensor& tensor, int seed) {
  const c10::InferenceMode as_the_stage;
  tensor.copy_(make_input(mlp(1, tensor.size(1)), tensor.size(0), at::kCPU, seed));
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 1e-5, 1e-7);
}

}  // namespace

TEST_CASE("A stage of the middle computes what autograd does", "[runtime][stage]") {
  const Plan plan = plan_of("--gpus 3 --depth 8 --batch 10 --microbatches 4");  // 3 3 3 1 samples, layers 3 3 2
  PipelineStage stage(plan, 1, at::kCPU, cpu_options());
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& p : stage.parameters()) parameters.push_back(p.clone().detach().requires_grad_(true));
  REQUIRE(parameters.size() == 6);
  for (int m : {0, 3}) {
    fill(stage.input(m), m);
    const at::Tensor x = stage.input(m).clone().detach().requires_grad_(true);
    at::Tensor y = x;
    for (std::size_t l = 0; l < parameters.size(); l += 2)
      y = at::relu(at::linear(y, parameters[l], parameters[l + 1]));
    stage.forward(m);
    CHECK(stage.output(m).size(0) == plan.microbatch_rows[m]);
    CHECK(close(stage.output(m), y.detach()));
    fill(stage.output_gradient(m), 10 + m);
    y.backward(stage.output_gradient(m).clone().detach());
    stage.backward(m, /*accumulate=*/m > 0);
    CHECK(close(stage.input_gradient(m), x.grad()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(close(stage.gradients()[i], parameters[i].grad()));
  const at::Tensor expected = parameters[0].detach() - 0.5 * parameters[0].grad();
  stage.optimizer_step();
  CHECK(close(stage.parameters()[0], expected));
}

TEST_CASE("The last stage's loss is the mean squared error over the whole batch", "[runtime][stage]") {
  const Plan plan = plan_of("--gpus 2 --depth 3 --batch 7 --microbatches 3");  // 3 3 1 samples
  PipelineStage stage(plan, 1, at::kCPU, cpu_options());
  const at::Tensor target = make_target(plan.spec.model, 7, at::kCPU, 3);
  std::vector<at::Tensor> outputs;
  for (int m = 0; m < 3; ++m) {
    fill(stage.input(m), m);
    stage.forward(m);
    outputs.push_back(stage.output(m).clone());
    stage.backward(m, m > 0);
  }
  CHECK(stage.loss() == Approx(at::mse_loss(at::cat(outputs), target).item<double>()).epsilon(1e-6));
}

TEST_CASE("Input gradient and weight gradient apart are the backward", "[runtime][stage]") {
  for (const int s : {0, 1, 2}) {
    const Plan plan = plan_of("--gpus 3 --depth 8 --batch 12 --microbatches 4");
    PipelineStage whole(plan, s, at::kCPU, cpu_options());
    PipelineStage split(with_split_backward(plan), s, at::kCPU, cpu_options());
    for (PipelineStage* stage : {&whole, &split}) {
      for (int m = 0; m < 4; ++m) {
        if (s > 0) fill(stage->input(m), m);
        stage->forward(m);
        if (s < 2) fill(stage->output_gradient(m), 10 + m);
      }
    }
    for (int m = 0; m < 4; ++m) whole.backward(m, m > 0);
    for (int m = 0; m < 4; ++m) split.backward_input(m);
    for (int m = 0; m < 4; ++m) split.backward_weight(m, m > 0);
    for (std::size_t i = 0; i < whole.gradients().size(); ++i) {
      CHECK(at::equal(whole.gradients()[i], split.gradients()[i]));
    }
    for (int m = 0; s > 0 && m < 4; ++m) CHECK(at::equal(whole.input_gradient(m), split.input_gradient(m)));
  }
}

TEST_CASE("Parameters do not depend on how layers are divided", "[runtime][stage]") {
  const RuntimeOptions options = cpu_options();
  PipelineStage all(plan_of("--gpus 1 --depth 5 --batch 4 --microbatches 2"), 0, at::kCPU, options);
  const Plan plan = plan_of("--gpus 3 --depth 5 --batch 4 --microbatches 2");  // layers 2 2 1
  PipelineStage middle(plan, 1, at::kCPU, options), last(plan, 2, at::kCPU, options);
  CHECK(at::equal(all.parameters()[4], middle.parameters()[0]));  // weight of layer 2
  CHECK(at::equal(all.parameters()[9], last.parameters()[1]));    // bias of layer 4
  CHECK_FALSE(at::equal(all.parameters()[0], all.parameters()[2]));
  const double bound = 1 / std::sqrt(6.0);
  CHECK(all.parameters()[0].abs().max().item<double>() <= bound);
  CHECK(all.parameters()[0].abs().max().item<double>() > 0.8 * bound);
}

TEST_CASE("Micro-batches share the buffers of their slot", "[runtime][stage]") {
  const Plan plan = make_plan(spec("--dim 6 --schedule 1f1b --gpus 2 --depth 4 --batch 8 --microbatches 4"));
  REQUIRE(plan.stages[1].slots == 2);  // one micro-batch lives, the next may arrive
  PipelineStage stage(plan, 1, at::kCPU, cpu_options());
  CHECK(stage.input(0).data_ptr() == stage.input(2).data_ptr());
  CHECK(stage.output(1).data_ptr() == stage.output(3).data_ptr());
  CHECK(stage.input(0).data_ptr() != stage.input(1).data_ptr());
}

TEST_CASE("Neighbours on one worker hand over in place", "[runtime][stage]") {
  const Plan plan = make_plan(spec("--dim 6 --schedule zb-v --gpus 2 --depth 7 --batch 8 --microbatches 4"));
  REQUIRE(plan.stages[1].workers == plan.stages[2].workers);
  const PipelineStage lower(plan, 1, at::kCPU, cpu_options());
  const PipelineStage upper(plan, 2, at::kCPU, cpu_options(), &lower);
  for (int m = 0; m < 4; ++m) {
    CHECK(upper.input(m).data_ptr() == lower.output(m).data_ptr());
    CHECK(upper.input_gradient(m).data_ptr() == lower.output_gradient(m).data_ptr());
    CHECK(upper.input(m).sizes() == lower.output(m).sizes());
  }
  CHECK_THROWS(PipelineStage(plan, 2, at::kCPU, cpu_options()));  // where is stage 1?
}

TEST_CASE("Recomputation gives the same gradients, and keeps nothing but input and output", "[runtime][stage]") {
  for (const int s : {0, 1, 2}) {
    const std::string flags = "--gpus 3 --depth 8 --batch 11 --microbatches 4";
    PipelineStage plain(plan_of(flags), s, at::kCPU, cpu_options());
    PipelineStage again(plan_of(flags + " --recompute 1"), s, at::kCPU, cpu_options());
    for (PipelineStage* stage : {&plain, &again}) {
      for (int m = 0; m < 4; ++m) {
        if (s > 0) fill(stage->input(m), m);
        stage->forward(m);
        if (s < 2) fill(stage->output_gradient(m), 10 + m);
      }
    }
    for (int m = 0; m < 4; ++m) CHECK(at::equal(plain.output(m), again.output(m)));
    for (int m = 0; m < 4; ++m) plain.backward(m, m > 0);
    for (int m = 0; m < 4; ++m) {
      again.recompute(m);
      again.backward(m, m > 0);
    }
    for (std::size_t i = 0; i < plain.gradients().size(); ++i)
      CHECK(at::equal(plain.gradients()[i], again.gradients()[i]));
    for (int m = 0; s > 0 && m < 4; ++m) CHECK(at::equal(plain.input_gradient(m), again.input_gradient(m)));
    if (s == 2) CHECK(plain.loss() == again.loss());
  }
}
