// The step of the course's programs: one thread issues for all GPUs, in the order of the schedule's first worker. A
// forward runs through all stages before the next operation is issued, and so does a backward.
//
//   2 GPUs, 1 micro-batch:
//
//     host 0   F0  copy  F0  B0  copy  B0  optimizer  optimizer
//     GPU 0    F0  send                receive  B0  optimizer
//     GPU 1        receive  F0  B0  send            optimizer
//
// A peer copy of PyTorch joins the compute streams of both GPUs (two-way barrier in at::native::copy_kernel_cuda,
// PyTorch 2.11), hence a group of two tasks. There are no replicas.
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// `plan`: all but its graph.
TaskGraph one_thread_step(const Plan& plan, const StepOrder& order);

}  // namespace pdl
