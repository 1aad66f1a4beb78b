#include "sim/cost/without_activation.hpp"

#include <algorithm>

#include "sim/cost/product_model.hpp"

namespace pdl {
namespace {

using Kernels = std::vector<Kernel>;

/// ReLU's or its backward, beside products, sums and casts of a layer.
bool is_activation(const Kernel& kernel) {
  return kernel.name.find("elementwise_kernel") != std::string::npos;
}

double time_ns(const Kernel& kernel) {
  return kernel.time_ns * static_cast<double>(kernel.count);
}

/// Behind all casts in a forward, before them in a backward.
Kernels::const_iterator activation_of(const Kernels& kernels, bool forward) {
  if (!forward) return std::find_if(kernels.begin(), kernels.end(), is_activation);
  const auto last = std::find_if(kernels.rbegin(), kernels.rend(), is_activation);
  return last == kernels.rend() ? kernels.end() : last.base() - 1;
}

/// Two streams at once: what was recorded of them is in no order.
bool has_two_streams(const MeasuredKey& layer) {
  return layer.implementation == "pipeline" && layer.operation == "backward";
}

/// Of the input gradient of that layer and size. Null: it was not measured.
const Kernels* kernels_of_input_gradient(const CostProfile& profile, MeasuredKey layer, std::int64_t rows) {
  layer.operation = "backward_input";
  layer.accumulate = false;
  layer.input_gradient = true;
  layer.layers = 0;
  const Curve* curve = profile.find(layer);
  if (!curve) return nullptr;
  const auto point = std::find_if(curve->points.begin(), curve->points.end(),
                                  [&](const CurvePoint& candidate) { return candidate.size == rows; });
  return point == curve->points.end() ? nullptr : &point->kernels;
}

/// How long the activation takes, at the memory's speed.
double moving_ns(const MeasuredKey& layer, std::int64_t rows, bool forward, double bytes_per_ns) {
  const double numbers = static_cast<double>(rows) * static_cast<double>(output_numbers(layer.layer));
  const auto number_bytes = static_cast<double>(product_number_bytes(layer.dtype.value_or(Dtype::fp32)));
  return bytes_per_ns > 0 ? (forward ? 2 : 3) * numbers * number_bytes / bytes_per_ns : 0;
}

void take_away(CurvePoint& point, double activation_ns) {
  const double left = std::max(0.0, 1 - activation_ns / point.time_ns);
  const double half_ns = std::max(activation_ns, point.p75_ns - point.p25_ns) / 2;
  point.time_ns *= left;
  point.p25_ns = std::max(0.0, point.time_ns - half_ns);
  point.p75_ns = point.time_ns + half_ns;
  point.median_ns.reset();
}

/// The sum of a gradient over its rows: the bias's. By a pipeline it is a product with a vector.
bool is_bias_gradient(const Kernel& kernel) {
  return kernel.name.find("reduce_kernel") != std::string::npos || kernel.name.find("gemv") != std::string::npos;
}

void take_away_launch(CurvePoint& point, double launches) {
  if (!point.issue_ns || launches < 2) return;
  const double left = 1 - 1 / launches;
  HostSpread& issue = *point.issue_ns;
  issue = {issue.median_ns * left, issue.p75_ns * left, issue.p90_ns * left, issue.p95_ns * left};
}

/// Its weight's gradient is that of a layer without.
bool has_activation(const MeasuredKey& layer) {
  return layer.operation != "backward_weight";
}

CurvePoint without_activation(CurvePoint point, const MeasuredKey& layer, const CostProfile& profile,
                              double bytes_per_ns) {
  if (!has_activation(layer)) return point;
  point.count = 0;
  const bool forward = layer.operation == "forward";
  const Kernels* of = has_two_streams(layer) ? kernels_of_input_gradient(profile, layer, point.size) : &point.kernels;
  if (!of || of->empty()) {
    // A pipeline's forward on a GPU always has its ReLU in the product.
    if (!forward || layer.implementation == "autograd")
      take_away(point, std::min(point.time_ns, moving_ns(layer, point.size, forward, bytes_per_ns)));
    return point;
  }
  const auto activation = activation_of(*of, forward);
  if (activation == of->end()) return point;  // in the epilogue of the product
  double all_ns = 0, launches = 0;
  for (const Kernel& kernel : *of) {
    all_ns += time_ns(kernel);
    launches += static_cast<double>(kernel.count);
  }
  // A share of what was recorded, unless that is of another operation.
  const bool own = of == &point.kernels;
  take_away(point, own ? point.time_ns * time_ns(*activation) / all_ns : std::min(point.time_ns, time_ns(*activation)));
  take_away_launch(point, own ? launches : launches + 2);  // the weight's product, the bias's sum
  const auto recorded = own ? activation : activation_of(point.kernels, forward);
  if (recorded != point.kernels.end()) point.kernels.erase(recorded);
  return point;
}

/// Without the kernels of the bias: its cast under autocast, the second of a forward's; its gradient.
CurvePoint without_bias(CurvePoint point, const MeasuredKey& layer) {
  if (layer.operation == "backward_input") return point;
  point.count = 0;
  const bool forward = layer.operation == "forward";
  const bool casts = layer.dtype && is_amp(*layer.dtype);
  if (point.kernels.empty() || (forward && !casts)) return point;
  auto of_bias = std::find_if(point.kernels.begin(), point.kernels.end(), forward ? is_activation : is_bias_gradient);
  if (forward && of_bias != point.kernels.end() && of_bias->count == 1)
    of_bias = std::find_if(of_bias + 1, point.kernels.end(), is_activation);
  if (of_bias == point.kernels.end()) return point;
  double all_ns = 0, launches = 0;
  for (const Kernel& kernel : point.kernels) {
    all_ns += time_ns(kernel);
    launches += static_cast<double>(kernel.count);
  }
  take_away(point, point.time_ns * of_bias->time_ns / all_ns);
  take_away_launch(point, launches);
  if (--of_bias->count == 0) point.kernels.erase(of_bias);
  return point;
}

}  // namespace

MeasuredCurve without_activation(const MeasuredCurve& with_activation, const LayerKind& kind,
                                 const CostProfile& profile, double bytes_per_ns) {
  MeasuredCurve derived;
  derived.key = with_activation.key;
  derived.key.layer.kind = &kind;
  for (const CurvePoint& point : with_activation.curve.points)
    derived.curve.points.push_back(without_activation(point, with_activation.key, profile, bytes_per_ns));
  if (kind.has_bias) return derived;
  for (CurvePoint& point : derived.curve.points) point = without_bias(std::move(point), with_activation.key);
  return derived;
}

}  // namespace pdl
