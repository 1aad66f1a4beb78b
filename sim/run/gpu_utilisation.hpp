// Utilisation of a GPU as nvidia-smi shows it: the share of time in which at least one kernel runs on it, however few
// of its multiprocessors that takes. NVIDIA's definition of utilization.gpu: "percent of time over the past sample
// period during which one or more kernels was executing on the GPU".
//
//   compute     F B .. ..        busy 2 of 4: 50 % of the step computes
//   collective  .. w  A A        w: NCCL's kernel spins until the other GPUs are there
//   -> 100 %: an NCCL kernel is a kernel, whether it moves data or waits
//
// Not counted: copies by the copy engine, which are no kernels. Inside a task of computation kernels are taken to
// follow each other; of a host-bound step the gaps between them are counted too, and nvidia-smi shows less.
#pragma once

#include <cstdint>

#include "sim/run/run_result.hpp"

namespace pdl {

/// 0 to 1, of the step of the timeline.
double kernel_share(const RunResult& run, std::int32_t gpu);

}  // namespace pdl
