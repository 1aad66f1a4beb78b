// Option C of the course's practical 9, as it writes it: F0, then F_i B_(i-1) for each further micro-batch, then the
// last backward. The same on every worker, whatever its stage.
//
//   3 micro-batches:  F0 | F1 B0  F2 B1 | B2
#include "sim/spec/schedule.hpp"

namespace pdl {

std::vector<Operation> option_c_order(const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> order{{OperationKind::forward, worker, 0}};
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t m = 1; m < shape.microbatches; ++m) {
    order.push_back({OperationKind::forward, worker, m});
    order.push_back({OperationKind::backward, worker, m - 1});
  }
  order.push_back({OperationKind::backward, worker, shape.microbatches - 1});
  return order;
}

}  // namespace pdl
