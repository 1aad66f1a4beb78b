// DualPipeV (DeepSeek-AI, DualPipe, arXiv:2412.19437, section 3.2.1, cut in half: github.com/deepseek-ai/DualPipe): the
// placement of ZB-V; in the steady state a forward of one chunk is paired with a backward of the other, so that the
// transfers of one are under the computation of the other. Here the two of a pair run one after the other.
//
//   worker 1 of 2 (stages 1 and 2), 4 micro-batches, pairs in brackets:
//     1F0 2F0  1F1 2F1 | 1F2 2B0 (2F2 1B0)  (1F3 2B1) (2F3 1B1) | 2B2 1B2 2I3 1I3 | 2W3 1W3
#include <deque>
#include <utility>

#include "sim/spec/schedules/two_chunks.hpp"

namespace pdl {

std::vector<Operation> dualpipe_v_order(const ScheduleShape& shape, std::int32_t worker) {
  using enum OperationKind;
  const std::int32_t after = shape.workers - 1 - worker;  // workers after this one
  TwoChunks order(shape, worker);
  std::deque<Operation> weights;  // of the input gradients that were made alone, oldest first

  const auto input = [&](std::int32_t chunk) {
    order.add(backward_input, chunk);
    weights.push_back(order.operations.back());
    weights.back().kind = backward_weight;
  };
  const auto oldest_weight = [&] {
    if (weights.empty()) return;
    order.operations.push_back(weights.front());
    weights.pop_front();
  };
  const auto pair = [&](std::int32_t forward_chunk, std::int32_t backward_chunk) {
    order.add(forward, forward_chunk);
    order.operations.back().overlaps_next = true;
    order.add(backward, backward_chunk);
  };

  for (std::int32_t i = 0; i < 2 * after; ++i) order.add(forward, kDown);
  for (std::int32_t i = 0; i < worker + 1; ++i) {
    order.add(forward, kDown);
    order.add(forward, kUp);
  }
  for (std::int32_t i = 0; i < after; ++i) {
    input(kUp);
    oldest_weight();
    order.add(forward, kUp);
  }
  const std::int32_t steady = shape.microbatches - 2 * shape.workers + worker + 1;
  for (std::int32_t i = 0; i < steady; ++i) {
    if (i == 0 && after == 0) {  // the turning point: its backward waits for the forward just before
      order.add(forward, kDown);
      order.add(backward, kUp);
    } else {
      pair(kDown, kUp);
    }
    pair(kUp, kDown);
  }
  for (std::int32_t i = 0; i < after; ++i) {
    order.add(backward, kUp);
    pair(kUp, kDown);
  }
  // The second half of the last backwards is split, so that the workers before this one wait less.
  const std::int32_t whole = worker + 1;
  for (std::int32_t i = 0; i < 2 * (worker + 1); ++i) {
    const std::int32_t chunk = i % 2 == 0 ? kUp : kDown;
    if (i < whole) {
      order.add(backward, chunk);
    } else {
      input(chunk);
    }
  }
  for (std::int32_t i = 0; i < after; ++i) {
    oldest_weight();
    input(kDown);
  }
  while (!weights.empty()) oldest_weight();
  return std::move(order.operations);
}

}  // namespace pdl
