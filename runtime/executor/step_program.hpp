// A training program: executes one step of a plan's graph on the devices of this process, for real.
//
//   auto program = make_pipeline_program(plan, options);   // or make_autograd_program: the one-thread programs
//   program->step(nullptr);                                 // warm-up
//   program->step(&recorder);                               // and where each task ran, when
//
// A step starts with all devices idle and returns when all devices are idle again.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

namespace pdl {

class SpanRecorder;

class StepProgram {
 public:
  virtual ~StepProgram() = default;

  /// One optimizer step. `recorder` (null: record nothing) gets the start and end of every task of this process.
  virtual void step(SpanRecorder* recorder) = 0;

  /// Mean-squared error over the whole batch in the last step, before its update; where the batch is divided over
  /// replicas in several processes, the part of this one: the parts add up. NaN where this process does not hold the last
  /// stage of a replica.
  virtual double loss() = 0;

  /// True if the optimizer's part of the last step was skipped because a gradient was not finite (amp-fp16).
  virtual bool skipped() const { return false; }

  /// amp-fp16: what the next loss is multiplied by.
  virtual std::optional<double> loss_scale() const { return std::nullopt; }

  /// Where each worker of this process is in its step, in a few words: what is said of a step that never ends. Called while
  /// step() runs, on another thread.
  virtual std::string where() const { return "in a step"; }

  /// weight and bias of every layer that this process holds, in layer order, replica after replica, copied to the host. Of
  /// DataParallel the model on GPU 0.
  virtual std::vector<torch::Tensor> parameters() = 0;
};

}  // namespace pdl
