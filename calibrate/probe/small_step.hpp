// A training step of a model so small that the host decides what it takes: 8 layers of width 64, 8 samples, as the DDP
// program runs it, with c10d's Reducer (a group of one rank, one bucket, gradients as views of it) or without.
//
//   SmallStep step(device, runtime, "fp32", group);
//   step.clear(); step.forward(); step.backward(); step.optimize();
//
// Not here: waiting for the device, except where GradScaler does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "runtime/executor/reducer.hpp"
#include "runtime/executor/runtime_options.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

class SmallStep {
 public:
  static constexpr std::int64_t kDim = 64;
  static constexpr std::int64_t kRows = 8;
  static constexpr int kLayers = 8;

  /// `group`: of one rank; null: no Reducer.
  SmallStep(c10::Device device, const RuntimeOptions& runtime, const std::string& dtype, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  /// Gradients become none.
  void clear();
  void forward();
  /// The loss and its backward. `keep`: the same is possible again without another forward.
  void backward(bool keep = false);
  /// With the gradients that there are, which stay.
  void optimize();

 private:
  c10::Device device_;
  Dtype dtype_;
  AutogradStage stage_;
  at::Tensor input_, target_, output_;
  std::optional<GradScaler> scaler_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace pdl
