// The same training by the plainest means: one device, the whole batch at once, LibTorch's autograd and optimizers. What
// every program's parameters must equal after the same number of steps.
//
//   std::vector<at::Tensor> expected = train_reference(spec, options, device, 40);
//   Agreement a = compare_parameters(spec, options, device, {}, program->parameters(), expected);
//
// Not for timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/executor/runtime_options.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// weight and bias of every layer after `steps` steps, on the host.
std::vector<at::Tensor> train_reference(const RunSpec& spec, const RuntimeOptions& options, at::Device device, int steps);

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
