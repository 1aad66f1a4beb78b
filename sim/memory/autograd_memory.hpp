// The memory of LibTorch's autograd in a step: tensors come and go in the order in which the host issues the tasks, and
// that order is replayed, of a step after the first ones.
//
//   replay_autograd(plan, 132)      // what is allocated on each GPU and its peak, without the libraries' workspaces
//
//   forward     what a layer makes and keeps is the answer of its kind (sim/model/layer.hpp, AutogradTensors)
//   recompute   of a checkpointed layer the forward keeps the input alone; what it would have kept is there from here
//               to the layer's backward. Casts of parameters are made twice
//   loss        the mean of mse_loss keeps the storage of all its terms; the loss of the step before is there until
//               there is a new one; a loss that is multiplied by a weight is a number of its own
//   backward    what a layer has used goes with its backward; the sum that makes a bias's gradient takes a buffer where
//               it is split over blocks; a gradient that is accumulated exists twice for a moment
//   autocast    copies of weights last to their layer's backward, those of biases and of the first weight to the end of
//               the forward; a loss of a half output is of a copy in fp32
//   zero_grad   sets gradients to none
//
// Sources: PyTorch 2.11, torch.profiler with profile_memory on the CPU; aten/src/ATen/native/cuda/Reduce.cuh. What
// LibTorch allocates in such a step is held against this by tests/runtime/program/step_memory_test.cpp.
//
// Units: bytes. Not here: fragmentation, scalars (512 bytes each).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/memory_changes.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// One a stage; of DataParallel and DDP stages are GPUs. `multiprocessors`: of the GPU; 0: no GPU. `records`: with the
/// changes of each task.
std::vector<GpuMemory> replay_autograd(const Plan& plan, std::int64_t multiprocessors, bool records);

}  // namespace pdl
