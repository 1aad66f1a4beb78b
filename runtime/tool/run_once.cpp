#include "runtime/tool/run_once.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "runtime/comm/rendezvous.hpp"
#include "runtime/executor/autograd_program.hpp"
#include "runtime/executor/ddp_program.hpp"
#include "runtime/executor/devices.hpp"
#include "runtime/executor/dp_program.hpp"
#include "runtime/executor/pipeline_program.hpp"
#include "runtime/measure/measure.hpp"
#include "runtime/model/reference_training.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

std::unique_ptr<StepProgram> make_program(const Plan& plan, const RuntimeOptions& options, Rendezvous* rendezvous) {
  if (plan.spec.strategy == Strategy::ddp) {
    TORCH_CHECK(rendezvous, "DDP without processes");
    const auto store = c10::make_intrusive<c10d::PrefixStore>("ddp", rendezvous->store());
    return make_ddp_program(plan, options, store, rendezvous->hosts() == 1);
  }
  if (plan.spec.strategy == Strategy::dp) return make_dp_program(plan, options);
  if (is_pipeline_plan(plan)) return make_pipeline_program(plan, options, rendezvous);
  return make_autograd_program(plan, options);
}

/// The layers that this process holds: parameters are handed out in this order.
std::vector<std::int64_t> local_layers(const Plan& plan, const RuntimeOptions& options) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : plan.stages) {
    for (std::int32_t l = 0; options.is_local(stage.worker) && l < stage.layer_count; ++l) layers.push_back(stage.first_layer + l);
  }
  return layers;
}

at::Device first_device(const RuntimeOptions& options) {
  if (options.device == DeviceKind::cpu) return at::Device(at::kCPU);
  const int worker = options.rank < 0 ? 0 : options.rank;
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(options.device_index(worker)));
}

nlohmann::json check_training(const Plan& plan, const RuntimeOptions& options, const std::vector<at::Tensor>& parameters) {
  const int steps = options.warmup + options.steps + options.recorded_steps;
  const at::Device device = first_device(options);
  const std::vector<at::Tensor> expected = train_reference(plan.spec, options, device, steps);
  const Agreement agreement =
      compare_parameters(plan.spec, options, device, local_layers(plan, options), parameters, expected);
  std::fprintf(stderr,
               "check%s: after %d steps the parameters differ from those of plain training on one device by at most %.3g; "
               "%.3g of the way that they have gone (%s)\n",
               options.rank < 0 ? "" : (" of worker " + std::to_string(options.rank)).c_str(), steps, agreement.largest_difference, agreement.relative_difference,
               agreement.equal ? "equal" : "NOT equal");
  if (!agreement.equal) throw std::runtime_error("the training is wrong: its parameters are not those of plain training");
  return {{"steps", steps},
          {"largest_difference", agreement.largest_difference},
          {"relative_difference", agreement.relative_difference}};
}

/// Mixed precision has other parameters than fp32; its losses must follow.
nlohmann::json check_losses(const Plan& plan, const RuntimeOptions& options, const nlohmann::json& extra) {
  const auto losses = extra.at("losses").get<std::vector<double>>();
  const int steps = static_cast<int>(losses.size());
  const auto skipped = extra.value("skipped", std::vector<std::int64_t>{});
  const LossAgreement agreement =
      compare_losses(losses, reference_losses(plan.spec, options, first_device(options), steps, skipped));
  std::fprintf(stderr, "check: the losses of %d steps differ from those of plain training in fp32 by at most %.3g %% (%s)\n", steps,
               100 * agreement.relative_difference, agreement.equal ? "equal" : "NOT equal");
  if (!agreement.equal) throw std::runtime_error("the training is wrong: its losses do not follow those of plain training");
  return {{"steps", steps}, {"largest_relative_loss_difference", agreement.relative_difference}};
}

RunResult run_program(const Plan& plan, const RuntimeOptions& options, const std::string& command,
                      Rendezvous* rendezvous, bool check) {
  std::unique_ptr<StepProgram> program = make_program(plan, options, rendezvous);
  RunResult result = measure(plan, options, *program, command, rendezvous);
  for (std::string& warning : device_warnings(plan, options)) result.warnings.push_back(std::move(warning));
  if (!check) return result;
  const std::vector<at::Tensor> parameters = program->parameters();
  program.reset();  // its memory is needed for the other training
  if (is_amp(plan.spec.dtype)) {
    if (options.rank <= 0) result.extra["check"] = check_losses(plan, options, result.extra);  // worker 0 has all losses
    return result;
  }
  result.extra["check"] = check_training(plan, options, parameters);
  return result;
}

}  // namespace

void check_run(const Plan& plan, const RuntimeOptions& options) {
  if (plan.spec.strategy == Strategy::ddp) return check_ddp_plan(plan, options);
  if (plan.spec.strategy == Strategy::dp) return check_dp_plan(plan, options);
  if (is_pipeline_plan(plan)) return check_pipeline_plan(plan, options);
  check_autograd_plan(plan, options);
}

RunResult run_once(const Plan& plan, const RuntimeOptions& options, const std::string& command, Rendezvous* rendezvous,
                   bool check) {
  check_run(plan, options);
  try {
    return run_program(plan, options, command, rendezvous, check);
  } catch (const c10::OutOfMemoryError& error) {
    throw CannotRun(std::string("out of memory: ") + error.what_without_backtrace());
  }
}

}  // namespace pdl
