// The peak of allocated memory on each GPU, as torch.cuda.max_memory_allocated would say it after training.
//
//   predict_memory_bytes(plan, {.pipeline = 68 << 20})   // one number a GPU
//   replay_memory(plan, {.pipeline = 68 << 20})          // what it consists of, and what each task adds and frees
//
// pipeline: every buffer exists before the first step (runtime/model/pipeline_stage.hpp), so the peak is their sum, and
// what one layer takes for a moment.
// autograd: tensors come and go in the order in which the host issues the tasks (sim/memory/autograd_memory.hpp).
//
// Units: bytes. Not modelled: fragmentation (reserved memory), the CUDA context.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/memory_changes.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// What a GPU's libraries hold beside the tensors (cuBLAS workspaces), measured by the probes, and what they depend on.
struct WorkspaceBytes {
  std::int64_t pipeline = 0;
  std::int64_t pipeline_split = 0;  // every backward is split
  std::int64_t autograd = 0;
  std::int64_t multiprocessors = 0;  // of the card; 0: not known, or no GPU
};

/// One a GPU, with the changes of each task. The peak is that of predict_memory_bytes, to the byte; no category is ever
/// below 0. In a pipeline only what a kernel takes for a moment changes.
std::vector<GpuMemory> replay_memory(const Plan& plan, const WorkspaceBytes& workspace);

/// The peaks: one number a GPU.
std::vector<std::int64_t> predict_memory_bytes(const Plan& plan, const WorkspaceBytes& workspace);

}  // namespace pdl
