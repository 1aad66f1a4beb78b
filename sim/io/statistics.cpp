#include "sim/io/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace pdl {

double quantile(const std::vector<double>& sorted, double fraction) {
  if (sorted.empty()) throw std::invalid_argument("quantile of nothing");
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace pdl
