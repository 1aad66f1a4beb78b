#include "calibrate/fit/layer_errors.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/notices.hpp"
#include "sim/cost/probe_clock.hpp"
#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

constexpr double kShortest_ns = 50e3;
constexpr double kQuantile = 0.9;
constexpr std::size_t kEnough = 8;

constexpr double kClasses_ns[] = {0, 150e3, 500e3};

using Group = std::tuple<std::string, Dtype, bool, double>;  // as in LayerError

double class_of(double time_ns) {
  return *(std::upper_bound(std::begin(kClasses_ns), std::end(kClasses_ns), time_ns) - 1);
}

bool is_of_products(const MeasuredCurve& curve) {
  return curve.key.probe == Probe::layer && curve.key.layer.kind->scaling == LayerScaling::matrix_product;
}

CostProfile without(const CostProfile& profile, const Layer& layer) {
  CostProfile rest = profile;
  std::erase_if(rest.curves,
                [&](const MeasuredCurve& curve) { return is_of_products(curve) && curve.key.layer == layer; });
  return rest;
}

/// |log(predicted / measured)| of all that was measured of this layer, added by group.
void predict_layer(const CostProfile& profile, const Layer& layer, std::map<Group, std::vector<double>>& all) {
  const CostProfile rest = without(profile, layer);
  Notices notices;
  std::map<Dtype, LayerTimes> times;
  for (const MeasuredCurve& curve : profile.of(Probe::layer)) {
    if (!is_of_products(curve) || curve.key.layer != layer || !curve.key.dtype) continue;
    auto found = times.find(*curve.key.dtype);
    if (found == times.end()) found = times.try_emplace(*curve.key.dtype, rest, *curve.key.dtype, notices).first;
    if (!found->second.has(curve.key)) continue;
    for (const CurvePoint& point : curve.curve.points) {
      if (point.time_ns < kShortest_ns) continue;
      MeasuredKey key = curve.key;
      key.size = point.size;
      const OperationTime predicted = found->second.at(key).front();
      const double measured_ns = point.time_ns * at_full_clock(profile, key, point.kernels);
      all[{key.implementation, *key.dtype, predicted.asked, class_of(predicted.device_ns)}].push_back(
          std::abs(std::log(predicted.device_ns / measured_ns)));
    }
  }
}

}  // namespace

std::vector<LayerError> layer_errors(const CostProfile& profile) {
  if (!profile.products) return {};
  std::map<Layer, std::size_t> most_rows;  // of one operation, by layer
  for (const MeasuredCurve& curve : profile.of(Probe::layer)) {
    if (!is_of_products(curve)) continue;
    std::size_t& rows = most_rows[curve.key.layer];
    rows = std::max(rows, curve.curve.points.size());
  }
  const auto drawn = std::count_if(most_rows.begin(), most_rows.end(), [](const auto& of) { return of.second == 1; });
  const bool only_drawn = static_cast<std::size_t>(drawn) >= kEnough;
  std::map<Group, std::vector<double>> all;
  if (most_rows.size() > 1) {
    for (const auto& [layer, rows] : most_rows) {
      if (!only_drawn || rows == 1) predict_layer(profile, layer, all);
    }
  }
  std::vector<LayerError> errors;
  for (auto& [group, off] : all) {
    const auto& [implementation, dtype, asked, from_ns] = group;
    if (from_ns > 0 && off.size() < kEnough) continue;
    std::sort(off.begin(), off.end());
    const double half_width = std::round(1e4 * quantile(off, kQuantile)) / 1e4;
    errors.push_back({implementation, dtype, asked, from_ns, half_width, static_cast<std::int64_t>(off.size())});
  }
  return errors;
}

}  // namespace pdl
