// Time of one layer of any shape, from the shapes that a profile has.
//
//   LayerTimes times(profile, Dtype::fp32, notices);
//   times.at({.probe = Probe::layer, .implementation = "pipeline", .operation = "forward",
//             .dtype = Dtype::fp32, .in = 5120, .out = 5120, .size = 512})
//
// Measured shapes as they are; between them straight lines in log(rows) and log(sqrt(in * out)) against log(time);
// beyond them the roofline:
//
//   time = max(FLOPs at the rate of the nearest measured layer,
//              bytes that must move at the best rate seen anywhere in the profile,
//              the smallest time measured of this operation)
//
// Units: nanoseconds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

/// Device and host time of one operation, and the kernels among which the device time is divided.
struct OperationTime {
  double device_ns = 0;
  double issue_ns = 0;
  const std::vector<Kernel>* kernels = nullptr;  // of the nearest measured point; owned by the profile
};

/// 2 * rows * in * out for forward, backward_input, backward_weight and backward without input gradient; twice that for
/// a whole backward; rows * out (a ReLU) for backward_input without input gradient.
double layer_flops(const MeasuredKey& layer);

/// The least that a layer reads and writes: its weight (or the gradient of it) and its activations, each once. Elements
/// of 4 bytes; 2 under autocast.
double layer_bytes(const MeasuredKey& layer);

class LayerTimes {
 public:
  /// `host_quantile`: of the issue times that were measured. Profile and notices must outlive this. Throws InputError
  /// if the profile has no layers of that data type, naming those it has.
  LayerTimes(const CostProfile& profile, Dtype dtype, Notices& notices, double host_quantile = kMedianHost);

  /// One operation, or the two that make it up where only those were measured; none for what takes no time of its own.
  /// Throws InputError if nothing like it was measured.
  const std::vector<OperationTime>& at(const MeasuredKey& layer);

  /// True if this operation was measured, of whatever shape.
  bool has(const MeasuredKey& layer) { return family(layer) != nullptr; }

 private:
  /// Curves that differ only in the shape of the layer, ascending sqrt(in * out).
  struct Family {
    std::vector<const MeasuredCurve*> shapes;
    double smallest_ns = 0;
  };

  std::vector<MeasuredKey> resolve(const MeasuredKey& layer);
  const Family* family(MeasuredKey layer);
  OperationTime of_family(const Family& family, const MeasuredKey& layer);
  double at_rows(const Family& family, const MeasuredCurve& shape, std::int64_t rows);
  double roofline_ns(const Family& family, const MeasuredKey& layer, const MeasuredKey& measured,
                     double measured_ns) const;

  const CostProfile& profile_;
  Notices& notices_;
  double host_quantile_;
  double best_bytes_per_ns_ = 0;  // at which memory was seen to deliver, in any layer of the profile
  std::map<MeasuredKey, Family> families_;
  std::map<MeasuredKey, std::vector<OperationTime>> known_;
};

}  // namespace pdl
