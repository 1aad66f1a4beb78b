// Layers on tensor cores at full clock: what their probes took longer because the card lowers its clock even in a short
// series of large products.
//
//   time_ns * at_full_clock(profile, layer, kernels)       // 4096 x 32000, 4,096 rows in bf16: .975
//
// The fit of products says how much longer large ones take than their kernels' times for smaller ones (ClockCurve): on
// H200 up to 3.5 % in bf16 and 5 % in fp16 at 10^12 FLOP and more, over 3 x 10^10. In a step the mean power decides
// (sim/cost/power_limit.hpp), which starts from times at full clock: with those of the probes what draws too much for a
// moment would count twice. Products alone follow the clock; kernels beside them wait for the memory. Kernels for odd
// widths were not looked at, and are left as they are.
//
// What would refute it: large products that take as long, for their FLOPs, in a step of mostly memory as in a series.
#pragma once

#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

/// Widths that are multiples of what kernels of tensor cores load at once, 16 bytes.
bool is_aligned(const MeasuredKey& layer);

/// A factor of at most 1. Of a profile without a model of products, in fp32 and of kinds without products it is 1.
double at_full_clock(const CostProfile& profile, const MeasuredKey& layer, const std::vector<Kernel>& kernels);

}  // namespace pdl
