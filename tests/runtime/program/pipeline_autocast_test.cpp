// Pipelines of bf16 beside autograd under autocast on one device.
#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/reference_training.hpp"
#include "runtime/program/autograd_program.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kStepsInHalf = 8;

/// A learning rate so large that the parameters visibly move in a few steps.
RuntimeOptions cpu_options() {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = 11;
  options.learning_rate = 1.0;
  return options;
}

/// How far trainings are apart, as shares of the way that the expected one has gone: losses, and the parameters of all
/// layers together.
struct Apart {
  double losses = 0, parameters = 0;
};

/// A program of pipelines beside LibTorch's own training under autocast on one device, with the whole batch.
Apart from_one_device_under_autocast(const RunSpec& spec, const RunSpec& on_one, const RuntimeOptions& options) {
  const std::unique_ptr<StepProgram> program = make_pipeline_program(make_plan(spec), options);
  const std::unique_ptr<StepProgram> expected = make_autograd_program(make_plan(on_one), options);
  const std::vector<at::Tensor> start = expected->parameters();
  std::vector<double> losses, expected_losses;
  for (int step = 0; step < kStepsInHalf; ++step) {
    program->step(nullptr);
    expected->step(nullptr);
    losses.push_back(program->loss());
    expected_losses.push_back(expected->loss());
  }
  const std::vector<at::Tensor> ours = program->parameters(), theirs = expected->parameters();
  REQUIRE(ours.size() % theirs.size() == 0);
  double difference = 0, way = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::size_t of_replica = i % theirs.size();
    difference += (ours[i] - theirs[of_replica]).square().sum().item<double>();
    way += (theirs[of_replica] - start[of_replica]).square().sum().item<double>();
  }
  const LossAgreement agreement = compare_losses(losses, expected_losses);
  CHECK(agreement.fall > 1e-3);  // else equality would say nothing
  return {agreement.relative_difference, std::sqrt(difference / way)};
}

/// Micro-batches round their gradients to half precision each for itself, one device those of the whole batch.
void check_under_autocast(const std::string& flags, const std::vector<Layer>& layers, double tolerance) {
  INFO(flags);
  for (const Layer& layer : layers) UNSCOPED_INFO(to_text(layer));
  const std::string common = "--dim 16 --batch 24 --dtype amp-bf16 --depth " + std::to_string(layers.size()) + " ";
  const RunSpec of = with_layers(spec(common + "--workers thread " + flags), layers);
  const RunSpec on_one = with_layers(spec(common + "--gpus 1 --strategy single --workers one"), layers);
  const Apart apart = from_one_device_under_autocast(of, on_one, cpu_options());
  CHECK(apart.losses < tolerance);
  CHECK(apart.parameters < tolerance);
}

}  // namespace

TEST_CASE("Every schedule trains under autocast as one device does", "[runtime][pipeline]") {
  const std::vector<Layer> layers(6, linear_relu(16, 16));
  for (const int gpus : {1, 3}) {
    for (const std::string& flags : every_schedule(gpus, 6)) check_under_autocast(flags, layers, .02);
    for (const std::string& flags : every_schedule(gpus, 6, true)) check_under_autocast(flags, layers, .02);
  }
  for (const std::vector<Layer>& mixed : mixed_layers(16)) {
    if (!trains_alike(mixed)) continue;
    // Eleven layers, whose losses fall by little: with one micro-batch, which rounds as one device does, the same.
    check_under_autocast("--gpus 2 --microbatches 1 --schedule gpipe", mixed, .01);
    for (const std::string schedule : {"1f1b", "zb-h1", "zb-v"})
      check_under_autocast("--gpus 2 --microbatches 4 --schedule " + schedule, mixed, .2);
  }
#if PDL_GLOO
  for (const std::string more : {"--gpus 2 --transport gloo", "--gpus 4 --pp 2 --dp 2"})
    check_under_autocast("--microbatches 4 --schedule 1f1b " + more, layers, .02);
#endif
}

TEST_CASE("A step of one micro-batch under autocast is that of autograd", "[runtime][pipeline]") {
  const std::vector<Layer> layers = {linear_relu(16, 16), layer_of_width(*find_layer_kind("layer_norm"), 16),
                                     linear(16, 16), layer_of_width(*find_layer_kind("gelu"), 16), linear(16, 8)};
  const std::string common = "--dim 16 --depth 5 --batch 24 --microbatches 1 --dtype amp-bf16 ";
  const Apart apart = from_one_device_under_autocast(
      with_layers(spec(common + "--gpus 2 --schedule 1f1b"), layers),
      with_layers(spec(common + "--gpus 1 --strategy single --workers one"), layers), cpu_options());
  CHECK(apart.losses < 1e-3);
  CHECK(apart.parameters < 1e-3);
}
