#include "sim/course/straight_line.hpp"

#include <algorithm>
#include <cmath>

namespace pdl {

StraightLine straight_line(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0, square = 0, product = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    square += (x[i] - mean_x) * (x[i] - mean_x);
    product += (x[i] - mean_x) * (y[i] - mean_y);
  }
  StraightLine line{.slope = product / square};
  line.intercept = mean_y - line.slope * mean_x;
  for (std::size_t i = 0; i < x.size(); ++i)
    line.largest_residual = std::max(line.largest_residual, std::abs(line.intercept + line.slope * x[i] - y[i]));
  return line;
}

}  // namespace pdl
