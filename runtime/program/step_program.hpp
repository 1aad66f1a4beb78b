// A training program: executes one step of a plan's graph on the devices of this process, for real.
//
//   auto program = make_pipeline_program(plan, options);   // or make_autograd_program: the one-thread programs
//   program->step(nullptr);                                 // warm-up
//   program->step(&recorder);                               // and where each task ran, when
//
// A step starts with all devices idle and returns when all devices are idle again.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/waiting.hpp"

namespace pdl {

class SpanRecorder;

class StepProgram {
 public:
  virtual ~StepProgram() = default;

  /// One optimizer step. `recorder` (null: record nothing) gets the start and end of every task of this process. A step
  /// that never ends ends the process (runtime/comm/waiting.hpp).
  void step(SpanRecorder* recorder) {
    const Waiting waiting([this] { return "step " + std::to_string(steps_begun_) + ": " + where(); });
    ++steps_begun_;
    run_step(recorder);
  }

  /// The loss over the whole batch in the last step, before its update; where the batch is divided over
  /// replicas in several processes, the part of this one: the parts add up. NaN where this process does not hold the
  /// last stage of a replica.
  virtual double loss() = 0;

  /// True if the optimizer's part of the last step was skipped because a gradient was not finite (amp-fp16).
  virtual bool skipped() const { return false; }

  /// amp-fp16: what the next loss is multiplied by.
  virtual std::optional<double> loss_scale() const { return std::nullopt; }

  /// weight and bias of every layer that this process holds, in layer order, replica after replica, copied to the host.
  /// Of DataParallel the model on GPU 0.
  virtual std::vector<torch::Tensor> parameters() = 0;

 private:
  virtual void run_step(SpanRecorder* recorder) = 0;

  /// Where each worker of this process is in its step, in a few words. Called while run_step() runs, on another thread.
  virtual std::string where() const { return "its one worker is at it"; }

  std::int64_t steps_begun_ = 0;
};

}  // namespace pdl
