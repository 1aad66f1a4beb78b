// Time that is in at least one of some intervals.
//
//   covered_ns({{0, 4}, {2, 6}, {9, 10}})   7
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace pdl {

using Interval = std::pair<std::int64_t, std::int64_t>;  // start, end: nanoseconds from 0 on

std::int64_t covered_ns(std::vector<Interval> intervals);

}  // namespace pdl
