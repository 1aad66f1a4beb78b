// The straight line that is nearest to some points, by least squares: step time over a delay, or over ACCUM_STEPS.
//
//   straight_line({0, 10, 20}, {13, 23, 33})   intercept 13, slope 1, largest residual 0
#pragma once

#include <vector>

namespace pdl {

struct StraightLine {
  double intercept = 0;
  double slope = 0;
  double largest_residual = 0;  // of y
};

/// `x`, `y`: of equal length, two different x at least.
StraightLine straight_line(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace pdl
