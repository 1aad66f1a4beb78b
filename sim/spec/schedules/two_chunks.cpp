#include "sim/spec/schedules/two_chunks.hpp"

#include <algorithm>

namespace pdl {

void TwoChunks::add(OperationKind kind, std::int32_t chunk) {
  const std::int32_t microbatch = next_[row(kind)][chunk_index(chunk)]++;
  if (microbatch >= shape_.microbatches) return;
  operations.push_back({kind, stage_of_chunk(Placement::v, shape_.workers, worker_, chunk), microbatch});
}

void TwoChunks::repeat(std::int32_t times, std::initializer_list<std::pair<OperationKind, std::int32_t>> of_chunks) {
  const auto is_done = [&](const auto& o) { return count(o.first, o.second) >= shape_.microbatches; };
  std::int32_t left = times;
  for (; left > 0 && !std::all_of(of_chunks.begin(), of_chunks.end(), is_done); --left) {
    for (const auto& [kind, chunk] : of_chunks) add(kind, chunk);
  }
  for (const auto& [kind, chunk] : of_chunks) next_[row(kind)][chunk_index(chunk)] += std::max(left, 0);
}

}  // namespace pdl
