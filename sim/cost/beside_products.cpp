#include "sim/cost/beside_products.hpp"

#include <algorithm>

#include "sim/cost/kernel_name.hpp"

namespace pdl {

/// The kernel that adds parts is called splitKreduce, or after its template, which begins with std::enable_if.
bool is_beside_products(const Kernel& kernel) {
  return !is_product_kernel(kernel.name) && kernel.name.find("splitKreduce") == kernel.name.npos &&
         kernel.name.find("enable_if") == kernel.name.npos;
}

std::optional<double> beside_products_ns(const CurvePoint& point) {
  double all_ns = 0, beside_ns = 0, launches = 0, launches_beside = 0;
  for (const Kernel& kernel : point.kernels) {
    const auto count = static_cast<double>(kernel.count);
    all_ns += kernel.time_ns * count;
    launches += count;
    if (!is_beside_products(kernel)) continue;
    beside_ns += kernel.time_ns * count;
    launches_beside += count;
  }
  if (all_ns <= 0) return std::nullopt;
  return beside_ns + launches_beside * std::clamp((point.time_ns - all_ns) / launches, 0.0, kLongestGap_ns);
}

}  // namespace pdl
