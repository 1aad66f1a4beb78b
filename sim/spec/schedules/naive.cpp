// Naive: F0 B0 F1 B1 ... on every worker; one micro-batch is in flight at a time.
#include "sim/spec/schedule.hpp"

namespace pdl {

std::vector<Operation> naive_order(const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t m = 0; m < shape.microbatches; ++m) {
    order.push_back({OperationKind::forward, worker, m});
    order.push_back({OperationKind::backward, worker, m});
  }
  return order;
}

}  // namespace pdl
