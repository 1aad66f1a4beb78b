#include "sim/spec/schedules/zero_bubble_handcrafted.hpp"

#include <algorithm>

namespace pdl {

std::vector<Operation> zero_bubble_order(std::int32_t stage, std::int32_t microbatches, std::int32_t warm_up,
                                         std::int32_t delay) {
  std::vector<Operation> order;
  order.reserve(3 * static_cast<std::size_t>(microbatches));
  std::int32_t forwards = 0, weights = 0;
  while (forwards < std::min(warm_up, microbatches)) order.push_back({OperationKind::forward, stage, forwards++});
  for (std::int32_t inputs = 0; inputs < microbatches; ++inputs) {
    if (forwards < microbatches) order.push_back({OperationKind::forward, stage, forwards++});
    order.push_back({OperationKind::backward_input, stage, inputs});
    if (inputs + 1 - weights > delay) order.push_back({OperationKind::backward_weight, stage, weights++});
  }
  while (weights < microbatches) order.push_back({OperationKind::backward_weight, stage, weights++});
  return order;
}

}  // namespace pdl
