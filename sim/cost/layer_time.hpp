// Time of one layer of any shape, from the shapes that a profile has.
//
//   LayerTimes times(profile, Dtype::fp32, notices);
//   times.at({.probe = Probe::layer, .implementation = "pipeline", .operation = "forward", .dtype = Dtype::fp32,
//             .layer = linear_relu(5120, 5120), .size = 512})
//
// Measured shapes as they are. Others, of matrix products, by the model of their kernels where the profile has one
// (sim/cost/layer_model.hpp): its time, times the share by which measured sizes near this one differ from it,
//
//   share = median of measured / modelled over measured sizes, each with the weight (distance^2 + 0.5)^-2, distance
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

#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/layer_families.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

/// Device and host time of one operation, and the kernels among which the device time is divided.
struct OperationTime {
  double device_ns = 0;
  double issue_ns = 0;
  const std::vector<Kernel>* kernels = nullptr;  // owned by the profile or by what LayerTimes keeps
  double half_width = 0;                         // relative: 90 % of truths lie so near to device_ns
  bool probed = true;                            // measured at this very size
  const MeasuredKey* of = nullptr;               // what it is the time of: of layers, as LayerPart has it
  bool asked = true;                             // as LayerPart has it
};

/// What the layer's kind answers (sim/model/layer.hpp) for the operation, rows and data type of the key.
double layer_flops(const MeasuredKey& layer);
double layer_bytes(const MeasuredKey& layer);

/// Throws InputError if the profile has layers, but none of that kind, nor of it with an activation: this kind is named
/// before anything else that the profile lacks. (A linear_relu is looked for when it is priced.)
void check_kind_is_measured(const Layer& layer, const CostProfile& profile);

class LayerTimes {
 public:
  /// `host_quantile`: of the issue times that were measured. Families and notices must outlive this. Throws InputError
  /// if the profile has no layers of that data type, naming those it has.
  LayerTimes(LayerFamilies& families, Dtype dtype, Notices& notices, double host_quantile = kMedianHost);
  /// The same with families of its own, of a profile that must outlive this.
  LayerTimes(const CostProfile& profile, Dtype dtype, Notices& notices, double host_quantile = kMedianHost);

  /// One operation, or the two that make it up where only those were measured; none for what takes no time of its own.
  /// Valid as long as this. Throws InputError if nothing like it was measured; if no layer of its kind was, it says so.
  const std::vector<OperationTime>& at(MeasuredKey layer);

  /// True if this operation was measured, of whatever shape.
  bool has(const MeasuredKey& layer) { return families_->has(layer); }

 private:
  struct Known {
    std::shared_ptr<const LayerPrice> price;
    std::vector<OperationTime> times;
  };

  std::unique_ptr<LayerFamilies> own_families_;
  LayerFamilies* families_;
  Notices& notices_;
  double host_quantile_;
  std::unordered_map<const LayerPrice*, Known> known_;
};

}  // namespace pdl
