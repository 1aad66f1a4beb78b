// What ZB-V and DualPipeV have in common: a worker has two chunks, one on the way down the workers and one on the way
// up again, and each operation takes the next micro-batch of its chunk.
//
//   TwoChunks order(shape, 0);                  // two workers
//   order.add(OperationKind::forward, kDown);   // 0F0
//   order.add(OperationKind::forward, kDown);   // 0F1
//   order.add(OperationKind::forward, kUp);     // 3F0
#pragma once

#include <array>
#include <initializer_list>
#include <utility>

#include "sim/spec/schedule.hpp"

namespace pdl {

inline constexpr std::int32_t kDown = 0, kUp = 1;  // chunks

class TwoChunks {
 public:
  TwoChunks(const ScheduleShape& shape, std::int32_t worker) : shape_(shape), worker_(worker) {}

  /// The chunk's next micro-batch for this kind. A whole backward takes the place of an input gradient. An operation of
  /// a micro-batch that does not exist is counted but left out.
  void add(OperationKind kind, std::int32_t chunk);

  /// These operations one after another, so many times. Where none of them is of a micro-batch that exists, the rest is
  /// counted at once: with few micro-batches on many workers an order is no longer to make than it is.
  void repeat(std::int32_t times, std::initializer_list<std::pair<OperationKind, std::int32_t>> of_chunks);

  /// Operations of a kind that a chunk has had, those left out too.
  std::int32_t count(OperationKind kind, std::int32_t chunk) const { return next_[row(kind)][chunk_index(chunk)]; }

  std::vector<Operation> operations;

 private:
  static std::size_t row(OperationKind kind) {
    return kind == OperationKind::forward ? 0 : kind == OperationKind::backward_weight ? 2 : 1;
  }
  static std::size_t chunk_index(std::int32_t chunk) { return static_cast<std::size_t>(chunk); }

  ScheduleShape shape_;
  std::int32_t worker_;
  std::array<std::array<std::int32_t, 2>, 3> next_{};  // by forward, input gradient, weight gradient; by chunk
};

}  // namespace pdl
