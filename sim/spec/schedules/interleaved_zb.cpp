// Interleaved 1F1B with split backwards: ZB1P of arXiv:2401.10241 with more than one chunk a worker, as PyTorch's
// ScheduleInterleavedZeroBubble has it. An input gradient is shorter than a whole backward, so one warm-up forward more
// for each worker that comes after this one is enough; worker w keeps its weight gradients w behind.
//
//   worker 1 of 2, 2 chunks (stages 1 and 3), 2 micro-batches:
//     1F0 1F1 | 3F0 3I0  3F1 3I1 3W0 | 1I0 3W1  1I1 1W0 | 1W1
#include <algorithm>

#include "sim/spec/schedules/microbatch_groups.hpp"

namespace pdl {

std::vector<Operation> interleaved_zero_bubble_order(const ScheduleShape& shape, std::int32_t worker) {
  const auto forwards = in_microbatch_groups(OperationKind::forward, shape, worker);
  const auto inputs = in_microbatch_groups(OperationKind::backward_input, shape, worker);
  const auto weights = in_microbatch_groups(OperationKind::backward_weight, shape, worker);
  const std::size_t all = forwards.size(), delay = static_cast<std::size_t>(worker);
  const std::int32_t wanted = (shape.chunks - 1) * microbatches_of_a_group(shape) + (shape.workers - 1 - worker);
  const std::size_t warm_up = std::min(static_cast<std::size_t>(wanted), all);

  std::vector<Operation> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  order.reserve(3 * all);
  for (std::size_t i = 0; i < all; ++i) {
    if (warm_up + i < all) order.push_back(forwards[warm_up + i]);
    order.push_back(inputs[i]);
    if (i >= delay) order.push_back(weights[i - delay]);
  }
  order.insert(order.end(), weights.end() - static_cast<std::ptrdiff_t>(std::min(delay, all)), weights.end());
  return order;
}

}  // namespace pdl
