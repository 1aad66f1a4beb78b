// The peak of allocated memory on each GPU, as torch.cuda.max_memory_allocated would say it after training.
//
//   predict_memory_bytes(plan, {.pipeline = 68 << 20})   // one number a GPU
//
// pipeline: every buffer exists before the first step (runtime/model/pipeline_stage.hpp), so the peak is their sum.
// autograd: tensors come and go in the order in which the host issues the tasks; that order is replayed. What is kept
//   by whom is PyTorch 2.11's, as its profiler shows it (torch.profiler, profile_memory): a Linear keeps its input and,
//   where it gives one a gradient, its weight; a ReLU keeps its result; a gradient that is accumulated exists twice for a
//   moment; zero_grad sets gradients to none; the mean of mse_loss keeps the storage of all its terms; the sum of the
//   gradient of a bias takes a buffer where it is split over blocks.
//
// Units: bytes. Not modelled: fragmentation (reserved memory), the CUDA context.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

/// What a GPU's libraries hold beside the tensors (cuBLAS workspaces), measured by the probes, and what they depend on.
struct WorkspaceBytes {
  std::int64_t pipeline = 0;
  std::int64_t pipeline_split = 0;  // every backward is split
  std::int64_t autograd = 0;
  std::int64_t multiprocessors = 0;  // of the card; 0: not known, or no GPU
};

/// What the sum over `rows` of a gradient of `width` columns takes for a moment, in any data type: partial sums in fp32,
/// one a block, thread and column of four, where rows are split over blocks of threads (PyTorch 2.11,
/// aten/src/ATen/native/cuda/Reduce.cuh: setReduceConfig, global_memory_size; cards with 2,048 threads a
/// multiprocessor). 0 below 1,024 rows, then as much as two such gradients in fp32, until the blocks fill the card.
std::int64_t bias_sum_bytes(std::int64_t rows, std::int64_t width, std::int64_t multiprocessors);

/// What the caching allocator counts for a tensor of `bytes`: a multiple of 512 bytes; from 10 MiB on a block is a
/// multiple of 2 MiB, of which a rest of 1 MiB or less is not split off (c10/cuda/CUDACachingAllocator.cpp, 2.11).
std::int64_t allocated_bytes(std::int64_t bytes);

/// One number a GPU.
std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace);

}  // namespace pdl
