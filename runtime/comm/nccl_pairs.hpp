// NCCL send and receive between neighbouring workers: one communicator of two ranks for every direction between two
// workers, so that no message waits for one of another direction or neighbour.
//
//   NcclPairs pairs(1, {{0, 1}, {1, 0}}, store);      // in the thread or process of worker 1, whose device is current
//   pairs.receive(buffer, bytes, 0, stream);          // from worker 0, on this stream
//
// In every pair the sender is rank 0, the receiver rank 1. Only where NCCL was found (PDL_CUDA).
#pragma once

#if PDL_CUDA

#include <nccl.h>

#include <cstdint>
#include <map>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

struct CUstream_st;

namespace pdl {

using WorkerPair = std::pair<int, int>;  // from, to

class NcclPairs {
 public:
  /// Joins every pair of `pairs` that has `worker` in it; returns when the other ends have joined. The sender of a pair
  /// hands the id of its communicator to the receiver through the store.
  NcclPairs(int worker, std::vector<WorkerPair> pairs, c10d::Store& store);

  /// Leaves them. Both ends of a pair must be leaving at the same time (NCCL 2.28: a collective call of the node).
  ~NcclPairs();
  NcclPairs(const NcclPairs&) = delete;
  NcclPairs& operator=(const NcclPairs&) = delete;

  void send(const void* data, std::int64_t bytes, int to, CUstream_st* stream);
  void receive(void* data, std::int64_t bytes, int from, CUstream_st* stream);

  /// Ends what hangs on a stream. Afterwards only destruction is allowed.
  void abort();

 private:
  int worker_;
  std::map<WorkerPair, ncclComm_t> communicators_;
};

}  // namespace pdl

#endif
