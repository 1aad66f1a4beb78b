#include "sim/cost/cost_profile.hpp"

#include <algorithm>

namespace pdl {

const Curve* CostProfile::find(const MeasuredKey& key) const {
  const auto found = std::lower_bound(curves.begin(), curves.end(), key,
                                      [](const MeasuredCurve& curve, const MeasuredKey& value) { return curve.key < value; });
  return found != curves.end() && found->key == key ? &found->curve : nullptr;
}

}  // namespace pdl
