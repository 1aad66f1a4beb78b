// Probes of what one device computes: layers forward and backward, loss, optimizer, in both programs; buckets.
//
//   for (const ProbePart& part : compute_parts(options, plan, runtime, pace)) ...
//   -> samples "layer", "loss", "optimizer", "bucket"
//
// The code that is timed is the runtime's own: the stages of a pipeline of 3 stages x 4 layers (first stage: no input
// gradient for its first layer; last stage: the loss), and the same as LibTorch modules under autograd. A layer's time
// is a fourth of its stage's, so weights come from memory and activations from the layer before, as in training. Of the
// other kinds of layers every row-wise one is measured (LayerScaling), of few widths and rows. Beside the grid of
// square layers there are some between its widths, some that are not square, and what a plan needs (layer_passes.hpp).
// Every device measures every shape, all at the same time; the values are put together. One data type after another:
// TF32 is a setting of the whole process. Tensor cores (all but fp32) are first kept busy until the power limit has its
// effect. Units: nanoseconds. Not here: transfers, the host's own costs.
#pragma once

#include <vector>

#include "calibrate/probe/layer_passes.hpp"
#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

/// One a pass (layer_passes.hpp). `plan`: may be null. `pace` is called by several threads; it outlives the parts.
std::vector<ProbePart> compute_parts(const ProbeOptions& options, const PlanOfProbe* plan,
                                     const RuntimeOptions& runtime, const Pace& pace);

}  // namespace pdl
