// The step of DistributedDataParallel: a process a GPU, the whole model on each, gradients averaged bucket by bucket
// beside the backward.
//
//   2 GPUs, 2 layers, a bucket a layer (of one GPU; the all-reduces of both are groups):
//
//     compute     F0  B0.. in0 B0.. in1 .....  out0 out1 optimizer
//     collective              all-reduce 0  all-reduce 1
//
// A bucket is filled by the backward of its lowest layer; the gradients are copied into it, divided by the number of
// replicas (at::mul_out in Reducer::mark_variable_ready_dense, PyTorch 2.11), and its all-reduce starts on a stream of
// its own; at the end of the backward every bucket is waited for in turn and copied back (Reducer::finalize_backward).
// With gradients that are views of the buckets nothing is copied back; into the buckets they are copied all the same,
// because zero_grad has set them to none. A round that does not exchange (no_sync) has one backward.
//
// Left out: the Reducer's own statistics (PyTorch's Logger asks for them; nobody does here).
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// `plan`: all but its graph.
/// Of the first `replicas` alone.
TaskGraph ddp_step(const Plan& plan, std::int32_t replicas);

}  // namespace pdl
