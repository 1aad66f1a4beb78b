#include "sim/cost/probe_clock.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/cost/beside_products.hpp"
#include "sim/cost/layer_time.hpp"

namespace pdl {
namespace {

constexpr double kLeastFlops = 1e10;  // smaller products are launches more than anything

/// By how much longer a product of so many FLOPs takes than the one that has the highest clock: a logarithm.
double log_below_full_clock(const ClockCurve& curve, double flops) {
  double least = INFINITY, at_flops = 0;
  for (std::size_t i = 0; i < curve.flops.size(); ++i) {
    if (curve.flops[i] < kLeastFlops || curve.log_factor[i] >= least) continue;
    least = curve.log_factor[i];
    at_flops = curve.flops[i];
  }
  if (flops <= at_flops || std::isinf(least)) return 0;
  const ProductShape as_large{1, 1, static_cast<std::int64_t>(flops / 2)};
  return std::max(0.0, log_clock_factor({curve}, curve.dtype, as_large) - least);
}

/// 1 where kernels were not recorded.
double share_of_products(const std::vector<Kernel>& kernels) {
  double all_ns = 0, products_ns = 0;
  for (const Kernel& kernel : kernels) {
    const double ns = kernel.time_ns * static_cast<double>(kernel.count);
    all_ns += ns;
    if (!is_beside_products(kernel)) products_ns += ns;
  }
  return all_ns > 0 ? products_ns / all_ns : 1;
}

}  // namespace

bool is_aligned(const MeasuredKey& layer) {
  constexpr std::int64_t kBytesAtOnce = 16;
  const std::int64_t numbers_at_once = kBytesAtOnce / product_number_bytes(layer.dtype.value_or(Dtype::fp32));
  return input_numbers(layer.layer) % numbers_at_once == 0 && output_numbers(layer.layer) % numbers_at_once == 0;
}

double at_full_clock(const CostProfile& profile, const MeasuredKey& layer, const std::vector<Kernel>& kernels) {
  const bool on_tensor_cores = layer.layer.kind->scaling == LayerScaling::matrix_product && layer.dtype &&
                               *layer.dtype != Dtype::fp32 && is_aligned(layer);
  if (!on_tensor_cores || !profile.products) return 1;
  const std::vector<ClockCurve>& clocks = profile.products->clocks;
  const auto curve =
      std::find_if(clocks.begin(), clocks.end(), [&](const ClockCurve& c) { return c.dtype == layer.dtype; });
  if (curve == clocks.end()) return 1;
  const double products = layer.operation == "backward" && layer.input_gradient ? 2 : 1;
  const double log_below = log_below_full_clock(*curve, layer_flops(layer) / products);
  return 1 - share_of_products(kernels) * (1 - std::exp(-log_below));
}

}  // namespace pdl
