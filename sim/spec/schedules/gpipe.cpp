// GPipe (arXiv:1811.06965, figure 2c): F0 F1 ... then B0 B1 ..., the backwards in the order of the forwards as
// PyTorch's ScheduleGPipe has them.
#include "sim/spec/schedule.hpp"

namespace pdl {

std::vector<Operation> gpipe_order(const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t m = 0; m < shape.microbatches; ++m) order.push_back({OperationKind::forward, worker, m});
  for (std::int32_t m = 0; m < shape.microbatches; ++m) order.push_back({OperationKind::backward, worker, m});
  return order;
}

}  // namespace pdl
