#include "sim/cost/operation_at_size.hpp"

namespace pdl {

OperationTime operation_at_size(const MeasuredCurve& measured, std::int64_t size, double host_quantile,
                                Notices& notices) {
  const CurveReading reading = read_curve(measured.curve, size);
  if (reading.extrapolated()) {
    notices.extrapolated(std::string(size_name(measured.key.probe)) + " of " + describe(measured.key), size,
                         measured.curve.least(), measured.curve.largest());
  }
  return {reading.time_ns, read_issue_ns(measured.curve, size, host_quantile),
          &nearest_point(measured.curve, size).kernels};
}

}  // namespace pdl
