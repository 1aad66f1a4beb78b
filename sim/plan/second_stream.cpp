#include "sim/plan/second_stream.hpp"

#include <algorithm>

namespace pdl {

bool tries_second_stream(const Plan& plan, std::int32_t stage) {
  const Stage& of = plan.stages[static_cast<std::size_t>(stage)];
  if (is_amp(plan.spec.dtype) || (of.layer_count == 1 && of.first_layer == 0)) return false;
  const auto begin = plan.spec.model.layers.begin() + of.first_layer;
  return std::none_of(begin, begin + of.layer_count, [](const Layer& layer) { return layer.kind->inner != nullptr; });
}

}  // namespace pdl
