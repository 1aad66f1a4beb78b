// What of a measured operation of a layer are its products, and what moves memory beside them: ReLU, sums of gradients,
// autocast's casts. By the kernels that were recorded there.
//
//   beside_products_ns(point)    // of 196 us of a forward under autocast 25: the weight's cast, and the gap before it
//
// Units: nanoseconds.
#pragma once

#include <optional>

#include "sim/cost/curve.hpp"

namespace pdl {

/// Between two kernels of an operation, at most.
inline constexpr double kLongestGap_ns = 3e3;

/// Not the addition of a product's parts, which is the library's own too.
bool is_beside_products(const Kernel& kernel);

/// The kernels beside the products, and what passes before each of them. What the recording took less than the
/// measurement is such gaps, as far as a gap may be; what it took more is a lower clock, which products follow and
/// memory does not. Nothing where kernels were not recorded.
std::optional<double> beside_products_ns(const CurvePoint& point);

}  // namespace pdl
