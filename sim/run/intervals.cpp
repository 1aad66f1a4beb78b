#include "sim/run/intervals.hpp"

#include <algorithm>

namespace pdl {

std::int64_t covered_ns(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t covered = 0, until = 0;
  for (const auto& [start, end] : intervals) {
    covered += std::max<std::int64_t>(0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return covered;
}

}  // namespace pdl
