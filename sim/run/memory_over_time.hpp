// What is allocated on each GPU during the step of a run, predicted or measured, by what it is.
//
//   const std::vector<GpuMemoryOverTime> memory = memory_over_time(run);
//   memory[0].samples       // {0 ns, {parameters 1024, gradients 0, ...}}, {500 ns, {...}}, ...
//   memory[0].peak_bytes    // the largest sum of a sample: of a prediction run.peak_memory_bytes[0], to the byte
//
// The allocations of a step follow from its plan (sim/memory/memory.hpp); the run's spans say when they are made. The
// changes of a task are spread evenly over its span, the first at its start, the last at its end. They are made in the
// order in which the host issues the tasks, as PyTorch's allocator sees it: where streams overlap, a change is shown no
// earlier than the change before it.
//
// A measured run does not say what its libraries hold. What its peak has above the replayed one is in `other` then,
// throughout.
//
// Units: nanoseconds from the start of the step, bytes. Not here: reserved memory (fragmentation), the CUDA context.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/memory_changes.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct MemorySample {
  std::int64_t time_ns = 0;
  BytesByCategory bytes{};  // from this moment on, until the next sample
};

struct GpuMemoryOverTime {
  std::vector<MemorySample> samples;  // by time, at least one, at 0
  std::int64_t peak_bytes = 0;        // of the sum over categories
};

/// One a GPU. Empty where the spans of the run are not those of its plan (plan_of_run.hpp). Throws as make_plan().
std::vector<GpuMemoryOverTime> memory_over_time(const RunResult& run);

}  // namespace pdl
