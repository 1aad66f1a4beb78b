#include "runtime/tool/run_once.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "runtime/comm/rendezvous.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/measure/measure.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/program/autograd_program.hpp"
#include "runtime/program/ddp_program.hpp"
#include "runtime/program/dp_program.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "sim/io/error.hpp"
#include "sim/report/progress_bar.hpp"

namespace pdl {
namespace {

[[noreturn]] void refuse_pytorch() {
  throw InputError("--program", "pytorch", "pdl: PyTorch's own program is a process of Python (pytorch_run.hpp)");
}

/// `purpose`: each program of a run has its own.
std::unique_ptr<StepProgram> make_program(const Plan& plan, const RuntimeOptions& options, Rendezvous* rendezvous,
                                          const std::string& purpose) {
  const Waiting waiting("worker " + std::to_string(std::max(options.rank, 0)) +
                        ": makes its layers and connects the workers");
  switch (plan.parallel.program) {
    case Program::pytorch_pipeline: refuse_pytorch();
    case Program::pipeline: return make_pipeline_program(plan, options, rendezvous, purpose);
    case Program::one_thread: return make_autograd_program(plan, options);
    case Program::data_parallel: return make_dp_program(plan, options);
    case Program::ddp: break;
  }
  TORCH_CHECK(rendezvous, "DDP without processes");
  const auto store = c10::make_intrusive<c10d::PrefixStore>("ddp/" + purpose, rendezvous->store());
  return make_ddp_program(plan, options, store, rendezvous->hosts() == 1);
}

/// The layers that this process holds: parameters are handed out in this order.
std::vector<std::int64_t> local_layers(const Plan& plan, const RuntimeOptions& options) {
  std::vector<std::int64_t> layers;
  for (const Stage& stage : plan.stages) {
    for (std::int32_t l = 0; options.is_local(only_worker(stage)) && l < stage.layer_count; ++l)
      layers.push_back(stage.first_layer + l);
  }
  return layers;
}

at::Device first_device(const RuntimeOptions& options) {
  return device_of(options, options.rank < 0 ? 0 : options.rank);
}

/// Adam makes steps of full length of what rounding leaves where a gradient is 0, as that of the keys' bias is.
bool has_gradients_of_noise(const RunSpec& spec) {
  return sequence_tokens(spec.model) > 0 && spec.optimizer != Optimizer::sgd;
}

nlohmann::json check_training(const Plan& plan, const RuntimeOptions& options,
                              const std::vector<at::Tensor>& parameters) {
  const int steps = options.warmup + options.steps + options.recorded_steps;
  const at::Device device = first_device(options);
  const std::vector<at::Tensor> expected = train_reference(plan.spec, options, device, steps);
  const Agreement agreement =
      compare_parameters(plan.spec, options, device, local_layers(plan, options), parameters, expected);
  std::fprintf(
      stderr,
      "check%s: after %d steps the parameters differ from those of plain training on one device by at most %.3g; "
      "%.3g of the way that they have gone (%s)\n",
      options.rank < 0 ? "" : (" of worker " + std::to_string(options.rank)).c_str(), steps,
      agreement.largest_difference, agreement.relative_difference, agreement.equal ? "equal" : "NOT equal");
  if (!agreement.equal)
    throw std::runtime_error("the training is wrong: its parameters are not those of plain training");
  return {{"steps", steps},
          {"largest_difference", agreement.largest_difference},
          {"relative_difference", agreement.relative_difference}};
}

struct LossesOfSteps {
  std::vector<double> losses;         // of the batch, by step
  std::vector<std::int64_t> skipped;  // steps
};

/// Of a pipeline only the processes with a last stage know the loss, or their part of it.
bool knows_loss(const Plan& plan, const RuntimeOptions& options) {
  if (plan.parallel.program != Program::pipeline) return true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (is_last_stage(plan.stages, s) && options.is_local(only_worker(plan.stages[s]))) return true;
  }
  return false;
}

/// Trains until so many steps have not been skipped. Only worker 0 gets losses.
LossesOfSteps train_for_losses(StepProgram& program, int taken, bool has_loss, Rendezvous* rendezvous) {
  constexpr std::int64_t kMostSkipped = 200;  // the scale halves every time: by then it is below any that works
  LossesOfSteps own;
  while (std::ssize(own.losses) - std::ssize(own.skipped) < taken) {
    program.step(nullptr);
    if (program.skipped()) own.skipped.push_back(std::ssize(own.losses));
    own.losses.push_back(has_loss ? program.loss() : 0);
    if (std::ssize(own.skipped) > kMostSkipped)
      throw CannotRun("check: all steps are skipped, because gradients are not finite in fp16");
  }
  if (!rendezvous) return own;
  LossesOfSteps all{std::vector<double>(own.losses.size(), 0.0), own.skipped};
  for (const std::string& text : rendezvous->gather("check/losses", nlohmann::json(own.losses).dump())) {
    const nlohmann::json part = nlohmann::json::parse(text);  // null: no number
    for (std::size_t i = 0; i < part.size(); ++i)
      all.losses.at(i) += part[i].is_null() ? std::numeric_limits<double>::quiet_NaN() : part[i].get<double>();
  }
  return all;
}

/// What the losses of a program must follow: a pipeline's those of autocast, which it does by hand, else those of fp32.
Reference reference_of(const Plan& plan) {
  const bool by_hand = plan.parallel.program == Program::pipeline && is_amp(plan.spec.dtype);
  return by_hand ? Reference::autocast : Reference::fp32;
}

/// Mixed precision has other parameters than fp32; its losses must follow. With the learning rate of the run they may
/// hardly move at all, with and without training: so this is another training, with a rate that makes them fall. All
/// workers call it.
nlohmann::json check_losses(const Plan& plan, RuntimeOptions options, Rendezvous* rendezvous) {
  constexpr int kSteps = 12;
  const at::Device device = first_device(options);
  std::string rate;
  if (options.rank <= 0) rate = nlohmann::json(clear_learning_rate(plan.spec, options, device, kSteps)).dump();
  if (rendezvous) rate = rendezvous->share("check/learning rate", rate).front();
  options.learning_rate = nlohmann::json::parse(rate).get<double>();
  std::unique_ptr<StepProgram> program = make_program(plan, options, rendezvous, "check");
  const LossesOfSteps trained = train_for_losses(*program, kSteps, knows_loss(plan, options), rendezvous);
  program.reset();
  if (options.rank > 0) return {};
  const int steps = static_cast<int>(trained.losses.size());
  const Reference in = reference_of(plan);
  const LossAgreement agreement =
      compare_losses(trained.losses, reference_losses(plan.spec, options, device, steps, trained.skipped, in),
                     has_gradients_of_noise(plan.spec) ? kLossToleranceOfNoise : kLossTolerance);
  std::fprintf(stderr,
               "check: the losses of %d steps with learning rate %.3g differ from those of plain training %s by "
               "at most %.3g of the way that these have gone, which is %.3g of the first (%s)\n",
               steps, options.learning_rate, in == Reference::fp32 ? "in fp32" : "under autocast",
               agreement.relative_difference, agreement.fall, agreement.equal ? "equal" : "NOT equal");
  if (!agreement.equal)
    throw std::runtime_error("the training is wrong: its losses do not follow those of plain training");
  return {{"steps", steps},
          {"learning_rate", options.learning_rate},
          {"fall_of_loss", agreement.fall},
          {"largest_loss_difference", agreement.relative_difference}};
}

/// "warm-up step 2 of 5", "step 7 of 30", "recorded step 1 of 5".
std::string name_of_step(const RuntimeOptions& options, std::int64_t next, std::int64_t of) {
  const std::int64_t warmup = options.warmup, steps = options.steps;
  const auto numbered = [](const char* what, std::int64_t at, std::int64_t all) {
    return std::string(what) + " " + std::to_string(at + 1) + " of " + std::to_string(all);
  };
  if (next < warmup) return numbered("warm-up step", next, warmup);
  if (next < warmup + steps) return numbered("step", next - warmup, steps);
  return next < of ? numbered("recorded step", next - warmup - steps, of - warmup - steps) : "done";
}

/// Of workers that are processes the first one shows how far they are; from what takes longest before the first step.
class RunProgress {
 public:
  explicit RunProgress(const RuntimeOptions& options) : options_(options) {
    if (options.rank <= 0) bar_.emplace();
    if (bar_) bar_->show("layers are made, matrix products timed, workers connected");
  }

  StepsDone steps_done() {
    if (!bar_) return {};
    return [this](std::int64_t done, std::int64_t of) {
      bar_->show(static_cast<double>(done) / static_cast<double>(of), name_of_step(options_, done, of));
    };
  }

 private:
  const RuntimeOptions& options_;
  std::optional<ProgressBar> bar_;
};

std::unique_ptr<StepProgram> make_measured_program(const Plan& plan, const RuntimeOptions& options,
                                                   Rendezvous* rendezvous) {
  if (options.device == DeviceKind::cpu) reset_process_peak_memory();
  return make_program(plan, options, rendezvous, "measured");
}

RunResult measure_with_progress(const Plan& plan, const RuntimeOptions& options, const std::string& command,
                                Rendezvous* rendezvous, std::unique_ptr<StepProgram>& program) {
  RunProgress progress(options);
  program = make_measured_program(plan, options, rendezvous);
  return measure_run(plan, options, *program, command, rendezvous, progress.steps_done());
}

RunResult run_program(const Plan& plan, const RuntimeOptions& options, const std::string& command,
                      Rendezvous* rendezvous, bool check) {
  std::unique_ptr<StepProgram> program;
  RunResult result = measure_with_progress(plan, options, command, rendezvous, program);
  for (std::string& warning : device_warnings(plan, options)) result.warnings.push_back(std::move(warning));
  if (!check) return result;
  const std::vector<at::Tensor> parameters = program->parameters();
  program.reset();  // its memory is needed for the other training
  if (is_amp(plan.spec.dtype) || has_gradients_of_noise(plan.spec)) {
    result.extra["check"] = check_losses(plan, options, rendezvous);
    return result;
  }
  result.extra["check"] = check_training(plan, options, parameters);
  return result;
}

}  // namespace

void check_run(const Plan& plan, const RuntimeOptions& options) {
  if (plan.spec.program == ProgramOf::pytorch) refuse_pytorch();
  switch (plan.parallel.program) {
    case Program::pytorch_pipeline: refuse_pytorch();
    case Program::pipeline: return check_pipeline_plan(plan, options);
    case Program::one_thread: return check_autograd_plan(plan, options);
    case Program::ddp: return check_ddp_plan(plan, options);
    case Program::data_parallel: return check_dp_plan(plan, options);
  }
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
