// 1F1B with flush (arXiv:2006.09503, figure 3; Megatron-LM's non-interleaved schedule):
//
//   stage 0 of 2, 4 micro-batches:  F0 | F1 B0  F2 B1  F3 B2 | B3      warm-up P-1-s, then pairs, then the rest
#include <algorithm>

#include "sim/spec/schedule.hpp"

namespace pdl {

std::vector<Operation> one_f_one_b_order(const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> order;
  order.reserve(2 * static_cast<std::size_t>(shape.microbatches));
  const std::int32_t warm_up = std::min(shape.workers - 1 - worker, shape.microbatches);
  for (std::int32_t m = 0; m < warm_up; ++m) order.push_back({OperationKind::forward, worker, m});
  for (std::int32_t m = warm_up; m < shape.microbatches; ++m) {
    order.push_back({OperationKind::forward, worker, m});
    order.push_back({OperationKind::backward, worker, m - warm_up});
  }
  for (std::int32_t m = shape.microbatches - warm_up; m < shape.microbatches; ++m) {
    order.push_back({OperationKind::backward, worker, m});
  }
  return order;
}

}  // namespace pdl
