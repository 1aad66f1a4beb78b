// Interleaved 1F1B (arXiv:2104.04473, section 2.2 and figure 4): a worker holds V chunks, stages w, w+P, w+2P ...;
// groups of micro-batches, usually P, go through each chunk in turn. Warm-up: a group through all chunks but the last,
// and two forwards more for each worker that comes after this one.
//
//   worker 1 of 2, 2 chunks (stages 1 and 3), 2 micro-batches:  1F0 1F1 | 3F0 3B0  3F1 3B1 | 1B0 1B1
#include <algorithm>

#include "sim/spec/schedules/microbatch_groups.hpp"

namespace pdl {

std::vector<Operation> interleaved_order(const ScheduleShape& shape, std::int32_t worker) {
  const auto forwards = in_microbatch_groups(OperationKind::forward, shape, worker);
  const auto backwards = in_microbatch_groups(OperationKind::backward, shape, worker);
  const std::int32_t wanted = (shape.chunks - 1) * microbatches_of_a_group(shape) + 2 * (shape.workers - 1 - worker);
  const std::size_t warm_up = std::min(static_cast<std::size_t>(wanted), forwards.size());
  const std::size_t pairs = forwards.size() - warm_up;

  std::vector<Operation> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  order.reserve(forwards.size() + backwards.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    order.push_back(forwards[warm_up + i]);
    order.push_back(backwards[i]);
  }
  order.insert(order.end(), backwards.begin() + static_cast<std::ptrdiff_t>(pairs), backwards.end());
  return order;
}

}  // namespace pdl
