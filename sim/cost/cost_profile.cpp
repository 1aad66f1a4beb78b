#include "sim/cost/cost_profile.hpp"

#include <algorithm>

namespace pdl {

const Curve* CostProfile::find(const MeasuredKey& key) const {
  const auto found =
      std::lower_bound(curves.begin(), curves.end(), key,
                       [](const MeasuredCurve& curve, const MeasuredKey& value) { return curve.key < value; });
  return found != curves.end() && found->key == key ? &found->curve : nullptr;
}

std::span<const MeasuredCurve> CostProfile::of(Probe probe) const {
  const auto first = std::partition_point(curves.begin(), curves.end(),
                                          [&](const MeasuredCurve& curve) { return curve.key.probe < probe; });
  const auto end =
      std::partition_point(first, curves.end(), [&](const MeasuredCurve& curve) { return curve.key.probe == probe; });
  return {first, end};
}

}  // namespace pdl
