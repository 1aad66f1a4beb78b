// NCCL all-reduces of gradients between the replicas of a stage: one communicator a group.
//
//   NcclGroups groups(3, {{0, {0, 2}}, {1, {1, 3}}}, store);   // in worker 3's thread or process, its device current
//   groups.average(1, gradients, stream);                      // with worker 1's
//
// All members call with tensors of the same sizes, in the same order. All tensors travel in one call of NCCL, in place;
// the sum is divided by the size of the group (ncclAvg). Only where NCCL was found (PDL_CUDA).
#pragma once

#if PDL_CUDA

#include <ATen/core/Tensor.h>
#include <nccl.h>

#include <map>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/replica_group.hpp"

struct CUstream_st;

namespace pdl {

class NcclGroups {
 public:
  /// Joins every group that `worker` is in; returns when the others have joined and a first number has been reduced in
  /// each: NCCL connects the ranks in their first call, and holds the hosts meanwhile.
  NcclGroups(int worker, const std::vector<ReplicaGroup>& groups, c10d::Store& store);

  /// Leaves them, as all members must at the same time.
  ~NcclGroups();
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;

  /// fp32, contiguous, on the current device.
  void average(int group, const std::vector<at::Tensor>& tensors, CUstream_st* stream);

  /// Ends what hangs on a stream. Afterwards only destruction is allowed.
  void abort();

 private:
  std::map<int, ncclComm_t> communicators_;  // by number of the group
};

}  // namespace pdl

#endif
