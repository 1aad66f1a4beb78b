#include "sim/spec/schedules/two_chunks.hpp"

namespace pdl {

void TwoChunks::add(OperationKind kind, std::int32_t chunk) {
  const std::int32_t microbatch = next_[row(kind)][chunk_index(chunk)]++;
  if (microbatch >= shape_.microbatches) return;
  operations.push_back({kind, stage_of_chunk(Placement::v, shape_.workers, worker_, chunk), microbatch});
}

}  // namespace pdl
