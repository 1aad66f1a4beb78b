// Tiny transformers, trained by every program: as on one device with the whole batch.
#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "runtime/comm/rank_threads.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/program/autograd_program.hpp"
#include "runtime/program/ddp_program.hpp"
#include "runtime/program/dp_program.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/ranks_in_threads.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/transformer_models.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 4;

RuntimeOptions cpu_options(const std::string& optimizer) {
  RuntimeOptions options = cpu_training(optimizer == "sgd" ? "sgd" : "adam", 7);
  if (optimizer == "sgd") options.learning_rate = .3;
  return options;
}

Plan plan_of(const Model& model, const std::string& flags) {
  const std::string batch = flags.find("--batch") == std::string::npos ? "--batch 6 " : "";
  return make_plan(with_model(spec("--depth 4 --dim 64 " + batch + flags), model));
}

std::unique_ptr<StepProgram> make_program(const Plan& plan, const RuntimeOptions& options) {
  switch (plan.parallel.program) {
    case Program::one_thread: return make_autograd_program(plan, options);
    case Program::data_parallel: return make_dp_program(plan, options);
    default: return make_pipeline_program(plan, options);
  }
}

std::vector<std::int64_t> layers_of(const Plan& plan) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : plan.stages)
    for (std::int32_t l = 0; l < stage.layer_count; ++l) layers.push_back(stage.first_layer + l);
  return layers;
}

void check_equal(const Plan& plan, const std::vector<at::Tensor>& parameters, const RuntimeOptions& options) {
  const Agreement agreement =
      compare_parameters(plan.spec, options, at::kCPU,
                         plan.parallel.program == Program::ddp ? std::vector<std::int64_t>() : layers_of(plan),
                         parameters, train_reference(plan.spec, options, at::kCPU, kSteps));
  CHECK(agreement.smallest_change > 1e-4);  // else equality would say nothing
  // Bias of keys: its gradient is 0, and Adam makes steps of full length of what rounding leaves of that.
  CHECK(agreement.relative_difference < (plan.spec.optimizer == Optimizer::sgd ? 2e-3 : .1));
}

void check_trains(const Model& model, const std::string& flags, const std::string& optimizer = "sgd") {
  INFO(flags << " --optimizer " << optimizer);
  const Plan plan = plan_of(model, flags + " --optimizer " + optimizer);
  const RuntimeOptions options = cpu_options(optimizer);
  const auto program = make_program(plan, options);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    program->step(nullptr);
    losses.push_back(program->loss());
  }
  const std::vector<double> expected = reference_losses(plan.spec, options, at::kCPU, kSteps, {});
  for (std::size_t step = 0; step < losses.size(); ++step) CHECK(losses[step] == Approx(expected[step]).epsilon(1e-4));
  CHECK(losses.front() == Approx(std::log(kTinyVocabulary)).epsilon(.15));
  CHECK(losses.back() < losses.front());
  check_equal(plan, program->parameters(), options);
}

const std::vector<Model>& models() {
  static const std::vector<Model> all = {tiny_gpt(), tiny_llama()};
  return all;
}

}  // namespace

TEST_CASE("Programs of one process train transformers as one device does", "[runtime][transformers]") {
  for (const Model& model : models()) {
    for (const std::string optimizer : {"sgd", "adam", "adamw", "adamw-fused"}) {
      check_trains(model, "--strategy single --workers one --gpus 1", optimizer);
      check_trains(model, "--strategy mp --gpus 2 --microbatches 1", optimizer);
    }
    check_trains(model, "--schedule gpipe --workers one --gpus 2 --microbatches 4");  // 2 2 2 0 samples
    check_trains(model, "--strategy dp --gpus 2 --accum 2");
  }
}

TEST_CASE("Pipelines train transformers as one device does", "[runtime][transformers]") {
  for (const Model& model : models()) {
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "1f1b --recompute 1"}) {
      check_trains(model, "--gpus 2 --microbatches 3 --schedule " + schedule);
      check_trains(model, "--gpus 2 --microbatches 4 --batch 7 --schedule " + schedule);  // 2 2 2 1 samples
    }
    check_trains(model, "--gpus 2 --microbatches 4 --batch 8 --schedule zb-v", "adamw");
    check_trains(model, "--gpus 2 --microbatches 2 --schedule 1f1b --accum 2", "adamw-fused");
    check_trains(model, "--gpus 2 --microbatches 2 --schedule 1f1b", "adam");
    check_trains(model, "--gpus 1 --microbatches 2 --strategy single --workers thread");
  }
}

TEST_CASE("A tied head trains the embedding's weight", "[runtime][transformers]") {
  for (const Model& model : {tiny_gpt(1), tiny_llama(1)}) {
    REQUIRE(is_tied(model));
    check_trains(model, "--strategy single --workers one --gpus 1", "adamw");
    check_trains(model, "--strategy dp --gpus 2");
    check_trains(model, "--gpus 1 --microbatches 2 --strategy single --workers thread");
    check_trains(model, "--gpus 1 --microbatches 2 --strategy single --workers thread --recompute 1", "adamw");
  }
  CHECK_THROWS(make_pipeline_program(plan_of(tiny_gpt(1), "--gpus 2 --microbatches 2"), cpu_options("sgd")));
}

TEST_CASE("Transformers with dropout are trained, with and without recomputation alike", "[runtime][transformers]") {
  const RuntimeOptions options = cpu_options("sgd");
  for (const std::string dtype : {"fp32", "amp-bf16"}) {
    INFO(dtype);
    std::vector<std::vector<at::Tensor>> trained;
    for (const std::string recompute : {"0", "1"}) {
      const std::string flags = "--gpus 2 --microbatches 2 --schedule 1f1b --dtype " + dtype;
      const Plan plan = plan_of(tiny_gpt(0, 10), flags + " --recompute " + recompute);
      const auto program = make_pipeline_program(plan, options);
      for (int step = 0; step < kSteps; ++step) program->step(nullptr);
      CHECK(program->loss() < std::log(kTinyVocabulary) + .2);
      trained.push_back(program->parameters());
    }
    for (std::size_t i = 0; i < trained[0].size(); ++i) CHECK(at::allclose(trained[0][i], trained[1][i], 1e-4, 1e-6));
  }
}

TEST_CASE("Losses of transformers in mixed precision follow fp32", "[runtime][transformers]") {
  constexpr int kMany = 12;
  for (const Model& model : models()) {
    for (const std::string flags :
         {"--strategy single --workers one --gpus 1", "--strategy mp --gpus 2 --microbatches 1"}) {
      INFO(flags);
      const Plan plan = plan_of(model, "--dtype amp-bf16 " + flags);
      RuntimeOptions options = cpu_options("sgd");
      options.learning_rate = clear_learning_rate(plan.spec, options, at::kCPU, kMany);
      const auto program = make_autograd_program(plan, options);
      std::vector<double> losses;
      for (int step = 0; step < kMany; ++step) {
        program->step(nullptr);
        losses.push_back(program->loss());
      }
      const LossAgreement agreement = compare_losses(losses, reference_losses(plan.spec, options, at::kCPU, kMany, {}));
      CHECK(agreement.equal);
      CHECK(agreement.relative_difference > 1e-6);  // half precision it was
      CHECK(agreement.fall > .01);
    }
  }
}

/// Largest distance of losses from those of one device under autocast, as a share of the way that these have gone.
TEST_CASE("Pipelines under autocast train transformers as one device does under autocast", "[runtime][transformers]") {
  for (const Model& model : {tiny_gpt(), tiny_llama(), tiny_gpt(1)}) {
    const std::vector<std::string> of_one = {"--gpus 1 --microbatches 2 --strategy single --workers thread"};
    const std::vector<std::string> of_two = {
        "--gpus 2 --microbatches 3 --schedule gpipe", "--gpus 2 --microbatches 3 --schedule 1f1b --recompute 1",
        "--gpus 2 --microbatches 4 --schedule zb-h1 --batch 7", "--gpus 2 --microbatches 4 --schedule zb-v --batch 8",
        "--gpus 2 --microbatches 2 --schedule 1f1b --accum 2"};
    for (const std::string& flags : is_tied(model) ? of_one : of_two) {
      INFO(flags);
      const Plan plan = plan_of(model, "--dtype amp-bf16 " + flags);
      RuntimeOptions options = cpu_options("sgd");
      const auto program = make_pipeline_program(plan, options);
      std::vector<double> losses;
      for (int step = 0; step < kSteps; ++step) {
        program->step(nullptr);
        losses.push_back(program->loss());
      }
      const auto expected = [&](Reference in) {
        return reference_losses(plan.spec, options, at::kCPU, kSteps, {}, in);
      };
      CHECK(compare_losses(losses, expected(Reference::autocast)).relative_difference < .02);
      CHECK(compare_losses(losses, expected(Reference::fp32)).relative_difference > 1e-6);  // half precision it was
    }
  }
}

#if PDL_GLOO

TEST_CASE("Every replica of DDP trains transformers as one device does", "[runtime][transformers]") {
  for (const Model& model : {tiny_gpt(), tiny_llama(), tiny_gpt(1)}) {
    for (const std::string rounds : {"", " --accum 2 --no-sync 1", " --bucket-mb 0.005 --first-bucket-mb 0.001"}) {
      INFO(rounds);
      const Plan plan = plan_of(model, "--strategy ddp --transport gloo --gpus 2 --optimizer adamw" + rounds);
      const auto store = c10::make_intrusive<c10d::HashStore>();
      std::vector<std::vector<at::Tensor>> parameters(2);
      on_rank_threads(2, "DDP steps", [&](int rank) {
        RuntimeOptions options = cpu_options("adamw");
        options.rank = rank;
        const auto program = make_ddp_program(plan, options, store, /*one_host=*/true);
        for (int step = 0; step < kSteps; ++step) program->step(nullptr);
        parameters[static_cast<std::size_t>(rank)] = program->parameters();
      });
      for (const std::vector<at::Tensor>& of_rank : parameters) check_equal(plan, of_rank, cpu_options("adamw"));
    }
  }
}

TEST_CASE("Replicas of a pipeline of transformers train as one device does", "[runtime][transformers]") {
  const Plan plan = plan_of(tiny_gpt(), "--gpus 4 --pp 2 --dp 2 --batch 8 --microbatches 2 --schedule zb-h1");
  const RuntimeOptions options = cpu_options("sgd");
  const auto program = make_pipeline_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  check_equal(plan, program->parameters(), options);
}

#endif
