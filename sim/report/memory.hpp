// The peak of allocated memory on each GPU, as torch.cuda.max_memory_allocated would say it after training.
//
//   predict_memory_bytes(plan, {.pipeline = 68 << 20})   // one number a GPU
//
// pipeline: every buffer exists before the first step (runtime/model/pipeline_stage.hpp), so the peak is their sum.
// autograd: tensors come and go in the order in which the host issues the tasks; that order is replayed. What is kept
//   by whom is PyTorch 2.11's: a Linear keeps its input, a ReLU its result; a gradient that is accumulated exists twice
//   for a moment; zero_grad sets gradients to none.
//
// Units: bytes. Not modelled: fragmentation (reserved memory), the CUDA context.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

/// What a GPU's libraries hold beside the tensors (cuBLAS workspaces), measured by the probes.
struct WorkspaceBytes {
  std::int64_t pipeline = 0;
  std::int64_t pipeline_split = 0;  // every backward is split
  std::int64_t autograd = 0;
};

/// What the caching allocator counts for a tensor of `bytes`: a multiple of 512 bytes; from 10 MiB on a block is a
/// multiple of 2 MiB, of which a rest of 1 MiB or less is not split off (c10/cuda/CUDACachingAllocator.cpp, 2.11).
std::int64_t allocated_bytes(std::int64_t bytes);

/// One number a GPU.
std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace);

}  // namespace pdl
