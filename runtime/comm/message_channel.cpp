#include "runtime/comm/message_channel.hpp"

namespace pdl {

MessageChannel channel_of(const TaskGraph& graph, const Task& transfer) {
  const Work& work = graph.works[transfer.work];
  const int lane = static_cast<int>(lane_of_stream(transfer.stream));
  return {work.from_worker, work.to_worker, 2 * lane + (carries_activations(transfer.kind) ? 0 : 1)};
}

}  // namespace pdl
