// NCCL send and receive between neighbouring workers: one communicator of two ranks for every channel, so that no
// message waits for one of another direction, neighbour or lane.
//
//   NcclPairs pairs(1, {{0, 1, 0}, {1, 0, 1}}, store);   // in worker 1's thread or process, its device current
//   pairs.receive(buffer, bytes, {0, 1, 0}, stream);     // from worker 0, on this stream
//
// NCCL matches the messages of a communicator by their order. The sender is its rank 0, the receiver its rank 1. Only
// where NCCL was found (PDL_CUDA).
#pragma once

#if PDL_CUDA

#include <nccl.h>

#include <cstdint>
#include <map>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/message_channel.hpp"

struct CUstream_st;

namespace pdl {

class NcclPairs {
 public:
  /// Joins every channel that has `worker` at an end; returns when the other ends have joined and a first message has
  /// gone through each: NCCL connects two ranks in their first message, and holds both hosts until both are there,
  /// which in a step might be a deadlock. The sender hands the id of the communicator to the receiver through the
  /// store.
  NcclPairs(int worker, std::vector<MessageChannel> channels, c10d::Store& store);

  /// Leaves them. Both ends of a channel must be leaving at the same time (NCCL 2.28: a collective call of the node).
  ~NcclPairs();
  NcclPairs(const NcclPairs&) = delete;
  NcclPairs& operator=(const NcclPairs&) = delete;

  void send(const void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream);
  void receive(void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream);

  /// Ends what hangs on a stream. Afterwards only destruction is allowed.
  void abort();

 private:
  void connect(const MessageChannel& channel, bool sends);

  std::map<MessageChannel, ncclComm_t> communicators_;
};

}  // namespace pdl

#endif
