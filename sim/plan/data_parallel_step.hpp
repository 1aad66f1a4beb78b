// The step of nn.DataParallel: one process; in every forward the model is copied from GPU 0 to the others, a thread a
// GPU issues the forward, gradients are summed on GPU 0.
//
//   2 GPUs (everything on the compute streams; main thread, and a thread a GPU for the forward):
//
//     GPU 0   scatter broadcast F0 gather loss scatter B0 reduce optimizer
//     GPU 1   scatter broadcast F0 gather .... scatter B0 reduce
//
// Source: torch/nn/parallel/{data_parallel,replicate,_functions,comm}.py, PyTorch 2.11. The sum of the gradients of a
// later round is added to what is there (AccumulateGrad): `bucket_copy_out`.
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// `plan`: all but its graph.
/// Of the first `replicas` alone.
TaskGraph data_parallel_step(const Plan& plan, std::int32_t replicas);

}  // namespace pdl
