// What more GPUs bring against fewer.
//
//   speedup_against({10.0, 1}, {3.0, 4})   speed-up 3.33, efficiency 0.83
#pragma once

#include <cstdint>

namespace pdl {

/// The time of some work on so many GPUs. Of two that are compared the work is the same: a step of the same batch, or
/// (weak scaling) a sample.
struct TimeOnGpus {
  double time = 0;
  std::int64_t gpus = 1;
};

struct Speedup {
  double speedup = 1;     // base time / time
  double efficiency = 1;  // speedup / (GPUs / GPUs of the base)
};

inline Speedup speedup_against(const TimeOnGpus& base, const TimeOnGpus& own) {
  const double speedup = base.time / own.time;
  return {speedup, speedup * static_cast<double>(base.gpus) / static_cast<double>(own.gpus)};
}

}  // namespace pdl
