// Units of time in files. Every file says its unit; none is assumed.
#pragma once

#include <cstdint>
#include <string_view>

namespace pdl {

/// Nanoseconds of one unit: ns, us, ms or s; 0 for anything else.
constexpr double ns_per_unit(std::string_view unit) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  return 0;
}

/// One measured operation takes at most 11 days: more is a broken file, and would not fit the engine's nanoseconds.
inline constexpr double kLongestTime_ns = 1e15;

/// Launches of one kernel in one operation.
inline constexpr std::int64_t kMostKernelLaunches = 10000;

}  // namespace pdl
