#include "runtime/comm/nccl_pairs.hpp"

#if PDL_CUDA

#include <algorithm>
#include <string>

#include "runtime/comm/nccl_calls.hpp"

namespace pdl {
namespace {

std::string key_of(const MessageChannel& channel) {
  return "nccl/" + std::to_string(channel.from) + "/" + std::to_string(channel.to) + "/" +
         std::to_string(channel.number);
}

}  // namespace

NcclPairs::NcclPairs(int worker, std::vector<MessageChannel> channels, c10d::Store& store) {
  // The same order on all workers: nobody waits in a channel for one who waits in another channel for him.
  std::sort(channels.begin(), channels.end());
  for (const MessageChannel& channel : channels) {
    if (channel.from != worker && channel.to != worker) continue;
    ncclComm_t communicator = nullptr;
    const ncclUniqueId id = share_nccl_id(key_of(channel), channel.from == worker, store);
    check_nccl(ncclCommInitRank(&communicator, 2, id, channel.from == worker ? 0 : 1), "ncclCommInitRank");
    communicators_[channel] = communicator;
    connect(channel, channel.from == worker);
  }
}

NcclPairs::~NcclPairs() {
  for (const auto& [channel, communicator] : communicators_) static_cast<void>(ncclCommDestroy(communicator));
}

void NcclPairs::connect(const MessageChannel& channel, bool sends) {
  void* first_message = nullptr;
  constexpr std::int64_t kBytes = 8;
  check_cuda(cudaMalloc(&first_message, kBytes), "cudaMalloc");
  sends ? send(first_message, kBytes, channel, nullptr) : receive(first_message, kBytes, channel, nullptr);
  check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  check_cuda(cudaFree(first_message), "cudaFree");
}

void NcclPairs::send(const void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at(channel);
  check_nccl(ncclSend(data, static_cast<std::size_t>(bytes), ncclInt8, 1, communicator, stream), "ncclSend",
             communicator);
}

void NcclPairs::receive(void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at(channel);
  check_nccl(ncclRecv(data, static_cast<std::size_t>(bytes), ncclInt8, 0, communicator, stream), "ncclRecv",
             communicator);
}

void NcclPairs::abort() {
  for (const auto& [channel, communicator] : communicators_) static_cast<void>(ncclCommAbort(communicator));
  communicators_.clear();
}

}  // namespace pdl

#endif
