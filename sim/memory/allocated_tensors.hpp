// What tensors take of a GPU's memory, as PyTorch's caching allocator counts it, and the tensors that every program
// has.
//
//   allocated_bytes(3 * 4) == 512
//   parameter_bytes(plan, plan.stages[0], 2)      // parameters, and as much again for their gradients
//
// Units: bytes. Not here: what comes and goes in a step (sim/memory/autograd_memory.hpp, memory.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

/// What the caching allocator counts for a tensor of `bytes`: a multiple of 512 bytes; from 10 MiB on a block is a
/// multiple of 2 MiB, of which a rest of 1 MiB or less is not split off (c10/cuda/CUDACachingAllocator.cpp, 2.11).
std::int64_t allocated_bytes(std::int64_t bytes);

/// Of so many numbers in fp32.
std::int64_t tensor_bytes(std::int64_t numbers);

/// Of all of them, each a block of its own.
std::int64_t tensor_bytes(const std::vector<TensorSize>& tensors);

const Layer& layer_of(const Plan& plan, std::int64_t index);

/// `copies` tensors like each parameter of the stage: 1 for the parameters, 1 for the gradients, 2 for Adam.
std::int64_t parameter_bytes(const Plan& plan, const Stage& stage, std::int64_t copies);

/// The two moments of Adam. The fused ones also keep the step count of each parameter on the device.
std::int64_t optimizer_bytes(const Plan& plan, const Stage& stage);

/// Adam and AdamW as foreach have the roots of all second moments for a moment.
bool takes_roots(Optimizer optimizer);

/// The batch of its replica on the first stage's GPU, the targets on the last one's; DataParallel has all on GPU 0.
std::int64_t data_bytes(const Plan& plan, std::size_t stage);

}  // namespace pdl
