// What one piece of work costs, in the four numbers that the engine needs.
//
// A task is a list of kernels k, issued by a host one after another (issue time h_k each) and executed in order on a
// stream (duration d_k each). In the algebra of max and plus that list collapses exactly into
//
//   first_launch_ns = h_0                               host time until the first kernel can start
//   issue_ns        = sum of h_k                        host time until the host is free again
//   device_ns       = sum of d_k                        stream time if the host is far ahead
//   span_ns         = max over k of (h_0..h_k + d_k..)  time from the start of issue to the end if the stream is idle
//
//   start = max(stream free, dependencies finished, issue begin + first_launch_ns)
//   end   = max(start + device_ns, issue begin + span_ns)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pdl {

struct TaskCost {
  std::int64_t device_ns = 0;
  std::int64_t issue_ns = 0;
  std::int64_t first_launch_ns = 0;
  std::int64_t span_ns = 0;
  bool operator==(const TaskCost&) const = default;
};

/// A task with no host cost.
inline TaskCost device_only(std::int64_t device_ns) {
  return {device_ns, 0, 0, device_ns};
}

/// One kernel of a task, where what runs beside it matters (sim/engine/run.hpp).
struct KernelCost {
  std::int64_t issue_ns = 0;
  std::int64_t device_ns = 0;  // alone on the GPU
  std::int64_t blocks = 0;     // thread blocks of its launch; 0: not known, taken to need no multiprocessor
  std::int64_t blocks_per_multiprocessor = 0;  // resident at once, of a compute kernel; 0: not known, taken as 1
  /// A collective beside this kernel takes 1 + this times as long: both want the memory.
  double slows_collectives = 0;
  bool operator==(const KernelCost&) const = default;
};

/// Kernels by work, of a graph in which collectives run beside compute. A collective is one kernel that holds as many
/// multiprocessors as it has blocks.
struct SharedMultiprocessors {
  std::int64_t count = 0;              // of a GPU; 0: nothing is shared
  std::int64_t launch_latency_ns = 0;  // from the issue of a kernel to its start on an idle stream
  std::vector<std::vector<KernelCost>> kernels;
};

/// Collapses a list of kernels. Equal lengths.
TaskCost collapse(std::span<const std::int64_t> issue_ns, std::span<const std::int64_t> device_ns);

}  // namespace pdl
