// The same training by the plainest means: one device, the whole batch at once, LibTorch's autograd and optimizers. What
// every program's parameters must equal after the same number of steps.
//
//   std::vector<at::Tensor> expected = train_reference(spec, options, device, 40);
//   Agreement a = compare_parameters(spec, options, device, {}, program->parameters(), expected);
//
//   std::vector<double> losses = reference_losses(spec, options, device, 40, {0, 1});    // for mixed precision
//   LossAgreement b = compare_losses(run.losses, losses);
//
// Always in fp32 or TF32. All accumulation rounds of a step have the same data, so one round is the same. Not for timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/executor/runtime_options.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// weight and bias of every layer after `steps` steps, on the host.
std::vector<at::Tensor> train_reference(const RunSpec& spec, const RuntimeOptions& options, at::Device device, int steps);

/// The loss of each step, before its update; those in `skipped` (counted from 0) leave the parameters as they are.
std::vector<double> reference_losses(const RunSpec& spec, const RuntimeOptions& options, at::Device device, int steps,
                                     const std::vector<std::int64_t>& skipped);

struct LossAgreement {
  double relative_difference = 0;  // the largest of |a - b| / |b|
  bool equal = false;
};

/// Of mixed precision and fp32: equal if every loss is within 2 %. fp16 and bf16 round each number by up to 0.05 and 0.4 %;
/// the loss is a mean over many numbers, whose errors partly cancel, but the parameters drift apart over the steps.
inline constexpr double kLossTolerance = 0.02;
LossAgreement compare_losses(const std::vector<double>& losses, const std::vector<double>& expected);

struct Agreement {
  double largest_difference = 0;
  /// The largest over the tensors of |a - b| / |b - start|, Euclidean norms: the difference of two trainings against the
  /// way that they have gone. Rounding of the parameters themselves is left out of the difference.
  double relative_difference = 0;
  /// The way itself, against the start: |b - start| / |start|, the smallest over the tensors.
  double smallest_change = 0;
  bool equal = false;
};

/// `parameters`: of these layers, in this order; of all where `layers` is empty. `expected`: of all layers. Equal up to the rounding of fp32 (of TF32
/// where the spec says so): products of other shapes add their terms in another order.
Agreement compare_parameters(const RunSpec& spec, const RuntimeOptions& options, at::Device device,
                             const std::vector<std::int64_t>& layers, const std::vector<at::Tensor>& parameters,
                             const std::vector<at::Tensor>& expected);

}  // namespace pdl
