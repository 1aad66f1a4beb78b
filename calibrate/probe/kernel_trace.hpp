// Which kernels an operation launches: name, duration, thread blocks, how many of them fit on a multiprocessor.
//
//   std::vector<TracedKernel> kernels = trace_kernels([&] { stage.forward(0); });
//
// Read from CUPTI's activity records (CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), in the order of their start, of all
// devices. Tracing slows launches, so durations of the operation as a whole are measured apart (device_timer.hpp).
// Without CUDA or CUPTI the list is empty. Units: nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pdl {

struct TracedKernel {
  std::string name;
  double ns = 0;
  std::int64_t blocks = 0;
  std::int64_t blocks_per_multiprocessor = 0;
};

/// Runs `work`, waits for the current device, and returns the kernels that ran meanwhile. One caller at a time.
std::vector<TracedKernel> trace_kernels(const std::function<void()>& work);

/// What limits residency, per multiprocessor.
struct MultiprocessorLimits {
  std::int64_t threads = 2048;
  std::int64_t blocks = 32;
  std::int64_t registers = 65536;
  std::int64_t shared_bytes = 228 * 1024;
  std::int64_t reserved_shared_bytes_a_block = 1024;
};

/// Blocks of a kernel that are resident at once: the least of what threads, registers and shared memory allow.
/// Registers are given out per warp in units of 256 (CUDA C++ Programming Guide, compute capability 9.0). At least 1.
std::int64_t resident_blocks(const MultiprocessorLimits& limits, std::int64_t threads_a_block,
                             std::int64_t registers_a_thread, std::int64_t shared_bytes_a_block);

}  // namespace pdl
