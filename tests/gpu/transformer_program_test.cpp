// Tiny transformers on the GPUs of this host: by hand in pipelines (memory-efficient attention, fused RMSNorm), by
// autograd and by DDP, each as plain training on one GPU.
#include <cmath>
#include <memory>
#include <string>

#include "runtime/program/autograd_program.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "tests/gpu/gpu_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/transformer_models.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 4;

/// Heads of 8 numbers, which the kernels of attention take.
void check_trains(const Model& model, const std::string& flags) {
  INFO(flags);
  const Plan plan = make_plan(with_model(spec("--depth 4 --dim 64 --batch 6 " + flags), model));
  RuntimeOptions options = gpu_options();
  options.learning_rate = .3;
  const at::Device first(at::kCUDA, 0);
  const bool pipeline = plan.parallel.program == Program::pipeline;
  const auto program = pipeline ? make_pipeline_program(plan, options) : make_autograd_program(plan, options);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    program->step(nullptr);
    losses.push_back(program->loss());
  }
  const std::vector<double> expected = reference_losses(plan.spec, options, first, kSteps, {});
  for (int step = 0; step < kSteps; ++step)
    CHECK(losses[static_cast<std::size_t>(step)] ==
          Approx(expected[static_cast<std::size_t>(step)]).epsilon(is_amp(plan.spec.dtype) ? .02 : 1e-4));
  CHECK(losses.front() == Approx(std::log(kTinyVocabulary)).epsilon(.15));
  CHECK(losses.back() < losses.front());
}

}  // namespace

TEST_CASE("Transformers on one GPU: every program trains as plain training does", "[gpu][transformers]") {
  if (!enough_gpus(1)) return;
  for (const Model& model : {tiny_gpt(), tiny_gpt(1), tiny_llama()}) {
    check_trains(model, "--strategy single --workers one");
    check_trains(model, "--strategy single --workers thread");
    check_trains(model, "--strategy single --workers one --dtype amp-bf16");
    check_trains(model, "--strategy single --workers thread --dtype tf32");
  }
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
    check_trains(tiny_gpt(), std::string("--gpus 1 --microbatches 3 --schedule ") + schedule);
}

TEST_CASE("Transformers in pipelines over GPUs train as one GPU with the whole batch does", "[gpu][transformers]") {
  for (const int gpus : {2, 4}) {
    if (!enough_gpus(gpus)) return;
    for (const Model& model : {tiny_gpt(), tiny_llama()}) {
      for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
        check_trains(model, "--microbatches 3 --gpus " + std::to_string(gpus) + " --schedule " + schedule);
    }
  }
}
