#include "sim/spec/schedules/microbatch_groups.hpp"

namespace pdl {

std::vector<Operation> in_microbatch_groups(OperationKind kind, const ScheduleShape& shape, std::int32_t worker) {
  std::vector<Operation> operations;
  operations.reserve(static_cast<std::size_t>(shape.chunks) * static_cast<std::size_t>(shape.microbatches));
  for (std::int32_t first = 0; first < shape.microbatches; first += shape.workers) {
    for (std::int32_t turn = 0; turn < shape.chunks; ++turn) {
      const std::int32_t chunk = kind == OperationKind::forward ? turn : shape.chunks - 1 - turn;
      const std::int32_t stage = stage_of_chunk(Placement::loop, shape.workers, worker, chunk);
      for (std::int32_t m = first; m < first + shape.workers; ++m) operations.push_back({kind, stage, m});
    }
  }
  return operations;
}

}  // namespace pdl
