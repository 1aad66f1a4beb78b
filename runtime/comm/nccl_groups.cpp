#include "runtime/comm/nccl_groups.hpp"

#if PDL_CUDA

#include <ATen/ATen.h>

#include <string>

#include "runtime/comm/nccl_calls.hpp"

namespace pdl {

NcclGroups::NcclGroups(int worker, const std::vector<ReplicaGroup>& groups, c10d::Store& store) {
  // In the order of their numbers on all workers: nobody waits in a group for one who waits in another for him.
  for (const ReplicaGroup& group : groups) {
    const int rank = rank_in(group, worker);
    if (rank < 0) continue;
    ncclComm_t communicator = nullptr;
    const ncclUniqueId id = share_nccl_id("nccl/group/" + std::to_string(group.number), rank == 0, store);
    check_nccl(ncclCommInitRank(&communicator, static_cast<int>(group.workers.size()), id, rank), "ncclCommInitRank");
    communicators_[group.number] = communicator;
    average(group.number, {at::zeros({1}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat))}, nullptr);
    check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }
}

NcclGroups::~NcclGroups() {
  for (const auto& [number, communicator] : communicators_) static_cast<void>(ncclCommDestroy(communicator));
}

void NcclGroups::average(int group, const std::vector<at::Tensor>& tensors, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at(group);
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  for (const at::Tensor& tensor : tensors) {
    void* data = tensor.data_ptr();
    check_nccl(
        ncclAllReduce(data, data, static_cast<std::size_t>(tensor.numel()), ncclFloat, ncclAvg, communicator, stream),
        "ncclAllReduce", communicator);
  }
  check_nccl(ncclGroupEnd(), "ncclGroupEnd", communicator);
}

void NcclGroups::abort() {
  for (const auto& [number, communicator] : communicators_) static_cast<void>(ncclCommAbort(communicator));
  communicators_.clear();
}

}  // namespace pdl

#endif
