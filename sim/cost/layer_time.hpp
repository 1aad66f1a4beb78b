// Time of one layer of any shape, from the shapes that a profile has.
//
//   LayerTimes times(profile, Dtype::fp32, notices);
//   times.at({.probe = Probe::layer, .implementation = "pipeline", .operation = "forward", .dtype = Dtype::fp32,
//             .layer = linear_relu(5120, 5120), .size = 512})
//
// Measured shapes as they are. Others, of matrix products, by the model of their kernels where the profile has one
// (sim/cost/layer_model.hpp): its time, times the share by which measured sizes near this one differ from it,
//
//   share = median of measured / modelled over measured sizes, each with the weight (distance^2 + 0.1^2)^-2, distance
//           in the logarithms of rows, in and out; a median, since where the model has another kernel than ran it is
//           far off
//
// Where it has none: straight lines in log(rows) and log(sqrt(in * out)) against log(time), of
// kinds that are row-wise (LayerScaling) in log(rows * width); beyond them the roofline:
//
//   time = max(FLOPs at the rate of the nearest measured layer,
//              bytes that must move at the best rate seen in the profile at any layer of this kind,
//              the smallest time measured of this operation)
//
// Layers of one kind never stand in for those of another.
//
// Units: nanoseconds.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/layer_model.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

/// Device and host time of one operation, and the kernels among which the device time is divided.
struct OperationTime {
  double device_ns = 0;
  double issue_ns = 0;
  const std::vector<Kernel>* kernels = nullptr;  // owned by the profile or by LayerTimes
  double half_width = 0;                         // relative: 90 % of truths lie so near to device_ns
  bool probed = true;                            // measured at this very size
  MeasuredKey of = {};                           // what it is the time of
};

/// What the layer's kind answers (sim/model/layer.hpp) for the operation, rows and data type of the key.
double layer_flops(const MeasuredKey& layer);
double layer_bytes(const MeasuredKey& layer);

/// Throws InputError if the profile has layers, but none of that kind: this kind is named before anything else that the
/// profile lacks. (A linear_relu is looked for when it is priced.)
void check_kind_is_measured(const Layer& layer, const CostProfile& profile);

class LayerTimes {
 public:
  /// `host_quantile`: of the issue times that were measured. Profile and notices must outlive this. Throws InputError
  /// if the profile has no layers of that data type, naming those it has.
  LayerTimes(const CostProfile& profile, Dtype dtype, Notices& notices, double host_quantile = kMedianHost);

  /// One operation, or the two that make it up where only those were measured; none for what takes no time of its own.
  /// Throws InputError if nothing like it was measured; if no layer of its kind was, it says so.
  const std::vector<OperationTime>& at(const MeasuredKey& layer);

  /// True if this operation was measured, of whatever shape.
  bool has(const MeasuredKey& layer) { return family(layer) != nullptr; }

 private:
  /// A measured size of a family, and by how much it differs from its model.
  struct MeasuredShare {
    std::array<double, 3> log_size{};  // rows, in, out
    double log_share = 0;
    double beside_ns = 0;  // of the model
    const CurvePoint* point = nullptr;
    const MeasuredCurve* curve = nullptr;
  };

  /// Curves that differ only in the shape of the layer, ascending sqrt(in * out).
  struct Family {
    std::vector<const MeasuredCurve*> shapes;
    double smallest_ns = 0;
    Curve by_numbers;                   // row-wise kinds: all shapes, over the numbers of the result
    std::vector<MeasuredShare> shares;  // matrix products, where there is a model
  };

  std::vector<MeasuredKey> resolve(const MeasuredKey& layer);
  const Family* family(MeasuredKey layer);
  OperationTime by_numbers(const Family& family, const MeasuredKey& layer);
  OperationTime of_family(const Family& family, const MeasuredKey& layer);
  OperationTime by_line(const Family& family, const MeasuredKey& layer);
  std::optional<OperationTime> by_model(const Family& family, const MeasuredKey& layer);
  double half_width(const MeasuredKey& layer, bool covered) const;
  double at_rows(const Family& family, const MeasuredCurve& shape, std::int64_t rows);
  double roofline_ns(const Family& family, const MeasuredKey& layer, const MeasuredKey& measured,
                     double measured_ns) const;

  const CostProfile& profile_;
  Notices& notices_;
  double host_quantile_;
  std::map<const LayerKind*, double> best_bytes_per_ns_;  // at which memory was seen to deliver, in layers of a kind
  std::optional<LayerModel> model_;
  std::map<MeasuredKey, Family> families_;
  std::deque<std::vector<Kernel>> modelled_kernels_;
  struct Known {
    std::vector<OperationTime> times;
    std::vector<std::size_t> said;  // notices that the times rest on
  };
  std::map<MeasuredKey, Known> known_;
};

}  // namespace pdl
