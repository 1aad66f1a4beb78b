// A training step of a model so small that the host decides what it takes: layers of width 64, 8 samples, with
// LibTorch's modules and autograd as the DDP program runs them; with c10d's Reducer (a group of one rank, one bucket,
// gradients as views of it, so that nothing is copied out) or without.
//
//   SmallStep step(8, device, runtime, Dtype::fp32, group);
//   step.clear(); step.forward(); step.backward(); step.optimize();
//
// Not here: waiting for the device, except where GradScaler does; sleeps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"
#include "runtime/program/reducer.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

class SmallStep {
 public:
  static constexpr std::int64_t kDim = 64;
  static constexpr std::int64_t kRows = 8;

  /// `group`: of one rank; null: no Reducer.
  SmallStep(int layers, c10::Device device, const RuntimeOptions& runtime, Dtype dtype,
            const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  /// Gradients become none.
  void clear();
  /// Gradients become those of the last backward before keep_gradients().
  void restore_gradients();
  void keep_gradients();

  /// What the Reducer, if there is one, does around a forward whose gradients it is to exchange.
  void prepare();
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
  std::vector<at::Tensor> kept_gradients_;
  std::optional<GradScaler> scaler_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace pdl
