// A layer that was not measured, from the curves of the same layer with an activation behind it: what is left without
// the kernels of the activation.
//
//   forward    GEMM, ReLU                      100 us    ->   linear   GEMM                     90 us
//   backward   ReLU's, GEMM, GEMM, sum         200 us    ->   linear   GEMM, GEMM, sum         180 us
//
// Of LibTorch's modules every operation has its kernels recorded in the order in which they ran. A pipeline's whole
// backward runs on two streams, and what was recorded of it begins anywhere: its ReLU's backward is that of the input
// gradient of the same size, which was measured alone. A product that has the ReLU in its epilogue takes as long
// without; whether the library takes the same kernel for it is not known. So the quartiles of a point are as far apart,
// at least, as the activation was long, and the error bar of what rests on it with them.
//
// A kind without a bias has also less the kernels of that: its cast under autocast, the sum of its gradient.
//
// Units: nanoseconds. Not here: which kinds have such a partner (LayerKind::with_activation).
#pragma once

#include "sim/cost/cost_profile.hpp"

namespace pdl {

/// `with_activation`: a curve of a layer of that kind, of the profile; the result is of `kind`, and so is its key.
/// `bytes_per_ns`: how fast activations move, where no kernels were recorded (CPUs): a forward reads one number and
/// writes one, a backward reads two and writes one. A point that is not the same for both kinds has no measurement
/// behind it: its count is 0.
MeasuredCurve without_activation(const MeasuredCurve& with_activation, const LayerKind& kind,
                                 const CostProfile& profile, double bytes_per_ns);

}  // namespace pdl
