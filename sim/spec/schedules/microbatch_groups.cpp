#include "sim/spec/schedules/microbatch_groups.hpp"

#include <algorithm>

namespace pdl {

std::int32_t microbatch_groups(const ScheduleShape& shape) {
  return std::max(1, shape.microbatches / shape.workers);
}

std::int32_t microbatches_of_a_group(const ScheduleShape& shape) {
  return shape.microbatches / microbatch_groups(shape);
}

std::vector<Operation> in_microbatch_groups(OperationKind kind, const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> operations;
  operations.reserve(static_cast<std::size_t>(shape.chunks) * static_cast<std::size_t>(shape.microbatches));
  const std::int32_t of_group = microbatches_of_a_group(shape);
  for (std::int32_t first = 0; first < shape.microbatches; first += of_group) {
    for (std::int32_t turn = 0; turn < shape.chunks; ++turn) {
      const std::int32_t chunk = kind == OperationKind::forward ? turn : shape.chunks - 1 - turn;
      const std::int32_t stage = stage_of_chunk(Placement::loop, shape.workers, worker, chunk);
      for (std::int32_t m = first; m < first + of_group; ++m) operations.push_back({kind, stage, m});
    }
  }
  return operations;
}

}  // namespace pdl
