// Breadth-first pipeline (arXiv:2211.05953, figure 3): every micro-batch through a chunk before the next chunk starts,
// forward and then backward. The backwards of a chunk run from the last micro-batch to the first, as in PyTorch's
// ScheduleLoopedBFS; the paper leaves their order open.
//
//   worker 0 of 2, 2 chunks (stages 0 and 2), 2 micro-batches:  0F0 0F1 | 2F0 2F1 | 2B1 2B0 | 0B1 0B0
#include "sim/spec/schedule.hpp"

namespace pdl {

std::vector<Operation> looped_bfs_order(const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> order;
  order.reserve(2 * static_cast<std::size_t>(shape.chunks) * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    const std::int32_t stage = stage_of_chunk(Placement::loop, shape.workers, worker, chunk);
    for (std::int32_t m = 0; m < shape.microbatches; ++m) order.push_back({OperationKind::forward, stage, m});
  }
  for (std::int32_t chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    const std::int32_t stage = stage_of_chunk(Placement::loop, shape.workers, worker, chunk);
    for (std::int32_t m = shape.microbatches - 1; m >= 0; --m) order.push_back({OperationKind::backward, stage, m});
  }
  return order;
}

}  // namespace pdl
