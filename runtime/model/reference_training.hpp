// The same training by the plainest means: one device, the whole batch at once, LibTorch's autograd and optimizers.
// What every program's parameters must equal after the same number of steps.
//
//   std::vector<at::Tensor> expected = train_reference(spec, options, device, 40);
//   Agreement a = compare_parameters(spec, options, device, {}, program->parameters(), expected);
//
//   options.learning_rate = clear_learning_rate(spec, options, device, 12);              // for mixed precision
//   std::vector<double> losses = reference_losses(spec, options, device, 12, {0, 1});
//   LossAgreement b = compare_losses(run.losses, losses);
//
// In fp32 or TF32; losses also under autocast, which pipelines do by hand. All accumulation rounds of a step have the
// same data, so one round is the same. Not for timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The parameters of every layer after `steps` steps, on the host.
std::vector<at::Tensor> train_reference(const RunSpec& spec, const RuntimeOptions& options, at::Device device,
                                        int steps);

/// The loss of each step, before its update; those in `skipped` (counted from 0) leave the parameters as they are.
/// `autocast`: the dtype of the spec, if it is amp-bf16, and not fp32.
enum class Reference : std::uint8_t { fp32, autocast };
std::vector<double> reference_losses(const RunSpec& spec, const RuntimeOptions& options, at::Device device, int steps,
                                     const std::vector<std::int64_t>& skipped, Reference in = Reference::fp32);

/// A learning rate with which the loss of plain training falls as much as it soundly can in so many steps: a quarter of
/// the largest (of 0.01 times powers of 4) with which every step makes it less. Throws std::runtime_error if there is
/// none.
double clear_learning_rate(const RunSpec& spec, RuntimeOptions options, at::Device device, int steps);

struct LossAgreement {
  double relative_difference = 0;  // the largest of |a - b|, over the way that b has gone: |b first - b last|
  double fall = 0;                 // that way, over |b first|
  bool equal = false;
};

/// Two trainings of such a model draw other masks, and cannot be compared.
bool has_dropout(const Model& model);

/// Of mixed precision and fp32: equal if no loss is further from the other than kLossTolerance of the way that the fp32
/// loss has gone. Without updates the difference is 1, with a gradient of half the length about .5, with other data of
/// the same kind above 1. Mixed precision itself makes less than .015 at clear_learning_rate() (bf16, whose numbers are
/// rounded by up to 0.4 %; 2 to 24 layers of 8 to 512 numbers, SGD and Adam, 12 steps): the errors of single numbers
/// nearly cancel in the mean.
inline constexpr double kLossTolerance = 0.05;
/// Of Adam on a model with gradients that are 0 but for rounding: its steps along them are as long as any, and random.
inline constexpr double kLossToleranceOfNoise = 0.2;
LossAgreement compare_losses(const std::vector<double>& losses, const std::vector<double>& expected,
                             double tolerance = kLossTolerance);

struct Agreement {
  double largest_difference = 0;
  /// The largest over the tensors of |a - b| / |b - start|, Euclidean norms: the difference of two trainings against
  /// the way that they have gone. Rounding of the parameters themselves is left out of the difference.
  double relative_difference = 0;
  /// The way itself, against the start: |b - start| / |start|, the smallest over the tensors.
  double smallest_change = 0;
  bool equal = false;
};

/// `parameters`: of these layers, in this order; of all where `layers` is empty. `expected`: of all layers. Equal up to
/// the rounding of fp32 (of TF32 where the spec says so): products of other shapes add their terms in another order.
Agreement compare_parameters(const RunSpec& spec, const RuntimeOptions& options, at::Device device,
                             const std::vector<std::int64_t>& layers, const std::vector<at::Tensor>& parameters,
                             const std::vector<at::Tensor>& expected);

}  // namespace pdl
