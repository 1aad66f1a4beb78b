// How much slower an all-reduce goes while kernels beside it want the memory.
//
//   MemoryContention contention(profile);
//   contention.of_copies()                       // k: beside kernels that only move memory; .5: 1.5 x the time
//   contention.of_layer(layer, device_ns, 4)     // beside the backward of that layer on each of 4 GPUs
//
// k comes from the probe of all-reduces beside copies: the largest message, less what it waits for the copy at hand of
// the slowest of n GPUs (n / (n+1) of a copy, in the mean), over its time alone. The wait is whole copies, a large part
// of the time, so k of one group of GPUs is uncertain to about .3; all groups that were measured are averaged.
//
// Kernels want the memory in part: a kernel that moves a share s of what copies move in its time slows by s k. Of a
// backward known traffic moves at full speed (`accumulate`: the gradient is read, the sum read and written, 12 bytes a
// weight; under autocast the gradient is cast to fp32, 6 bytes a weight), a fraction f of its time; the rest of its
// bytes are spread over the rest of the time, a share g. A ring goes at the pace of its slowest GPU, and GPUs are out
// of step by about a kernel (tens of microseconds, runs of 4 H200): at any moment one of n is at full speed with
// probability 1 - (1-f)^n.
//
//   slowdown = k (g + (1 - g) (1 - (1-f)^n))
//
// Units: nanoseconds; slowdowns are fractions of the time alone. Not here: the wait for multiprocessors (sim/engine).
#pragma once

#include <cstdint>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

class MemoryContention {
 public:
  /// Nothing is slowed; nor without the probes.
  MemoryContention() = default;
  explicit MemoryContention(const CostProfile& profile);

  double of_copies() const { return of_copies_; }

  /// `layer`: a backward, which takes device_ns.
  double of_layer(const MeasuredKey& layer, double device_ns, std::int64_t gpus) const;

 private:
  double copy_bytes_per_ns_ = 0;  // read and written
  double of_copies_ = 0;
};

}  // namespace pdl
