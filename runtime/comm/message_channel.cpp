#include "runtime/comm/message_channel.hpp"

namespace pdl {

MessageChannel channel_of(const TaskGraph& graph, const Task& transfer) {
  constexpr std::uint32_t kRoles = (kStreamsPerWorker - 1) / kLanes;
  const Work& work = graph.works[transfer.work];
  const std::uint32_t lane = (transfer.stream % kStreamsPerWorker - 1) / kRoles;
  const bool forward = transfer.kind == TaskKind::send_forward || transfer.kind == TaskKind::receive_forward;
  return {work.from_worker, work.to_worker, 2 * static_cast<int>(lane) + (forward ? 0 : 1)};
}

}  // namespace pdl
