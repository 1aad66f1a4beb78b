// Time of an operation of any size, from the sizes that were measured: buckets, losses, optimizers.
//
//   operation_at_size(measured, 16'777'216, kMedianHost, notices)    // measured: of the probe `optimizer`; parameters
//
// Sizes beyond the measured ones are extrapolated by the curve, which is said. Units: nanoseconds.
#pragma once

#include <cstdint>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

/// `host_quantile`: of the issue times that were measured. The kernels are the profile's.
OperationTime operation_at_size(const MeasuredCurve& measured, std::int64_t size, double host_quantile,
                                Notices& notices);

}  // namespace pdl
