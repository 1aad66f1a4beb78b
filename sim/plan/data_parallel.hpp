// The step of the two data-parallel programs: a whole model on every GPU, a part of the batch each.
//
//   DistributedDataParallel, 2 GPUs, 2 layers, a bucket a layer (of one GPU; the all-reduces of both are groups):
//
//     compute     F0  B0.. in0 B0.. in1 .....  out0 out1 optimizer
//     collective              all-reduce 0  all-reduce 1
//
//   nn.DataParallel, 2 GPUs (everything on the compute streams; main thread, and a thread a GPU for the forward):
//
//     GPU 0   scatter broadcast F0 gather loss scatter B0 reduce optimizer
//     GPU 1   scatter broadcast F0 gather .... scatter B0 reduce
//
// DDP: a bucket is filled by the backward of its lowest layer; the gradients are copied into it, divided by the number
// of replicas (at::mul_out in Reducer::mark_variable_ready_dense, PyTorch 2.11), and its all-reduce starts on a stream
// of its own; at the end of the backward every bucket is waited for in turn and copied back
// (Reducer::finalize_backward). With gradients that are views of the buckets nothing is copied back; into the buckets
// they are copied all the same, because zero_grad has set them to none. A round that does not exchange (no_sync) has
// one backward. DataParallel: torch/nn/parallel/{data_parallel,replicate,_functions,comm}.py. The sum of the gradients
// of a later round is added to what is there (AccumulateGrad): `bucket_copy_out`.
// What the plan leaves out: the Reducer's own statistics (PyTorch's Logger asks for them; nobody does here).
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// Fills in buckets, live activations and graph of a plan of strategy dp or ddp, whose stages and rows are there.
void plan_data_parallel(Plan& plan);

/// The host's sleep of so many milliseconds.
Work sleep_work(double ms);

}  // namespace pdl
