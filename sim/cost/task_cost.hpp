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
inline TaskCost device_only(std::int64_t device_ns) { return {device_ns, 0, 0, device_ns}; }

/// Collapses a list of kernels. Equal lengths.
TaskCost collapse(std::span<const std::int64_t> issue_ns, std::span<const std::int64_t> device_ns);

}  // namespace pdl
