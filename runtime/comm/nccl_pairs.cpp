#include "runtime/comm/nccl_pairs.hpp"

#if PDL_CUDA

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pdl {
namespace {

void check(ncclResult_t result, const char* call, ncclComm_t communicator = nullptr) {
  if (result == ncclSuccess) return;
  const char* detail = ncclGetLastError(communicator);
  throw std::runtime_error(std::string("NCCL: ") + call + ": " + ncclGetErrorString(result) +
                           (detail && *detail ? std::string(" (") + detail + ")" : ""));
}

void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + call + ": " + cudaGetErrorString(result));
}

ncclUniqueId share_id(const MessageChannel& channel, int worker, c10d::Store& store) {
  const std::string key = "nccl/" + std::to_string(channel.from) + "/" + std::to_string(channel.to) + "/" + std::to_string(channel.number);
  ncclUniqueId id;
  if (worker == channel.from) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    store.set(key, std::vector<std::uint8_t>(id.internal, id.internal + sizeof id.internal));
    return id;
  }
  const std::vector<std::uint8_t> bytes = store.get(key);
  if (bytes.size() != sizeof id.internal) throw std::runtime_error("NCCL: an id of " + std::to_string(bytes.size()) + " bytes");
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(id.internal));
  return id;
}

}  // namespace

NcclPairs::NcclPairs(int worker, std::vector<MessageChannel> channels, c10d::Store& store) {
  // The same order on all workers: nobody waits in a channel for one who waits in another channel for him.
  std::sort(channels.begin(), channels.end());
  for (const MessageChannel& channel : channels) {
    if (channel.from != worker && channel.to != worker) continue;
    ncclComm_t communicator = nullptr;
    const ncclUniqueId id = share_id(channel, worker, store);
    check(ncclCommInitRank(&communicator, 2, id, channel.from == worker ? 0 : 1), "ncclCommInitRank");
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
  check(cudaMalloc(&first_message, kBytes), "cudaMalloc");
  sends ? send(first_message, kBytes, channel, nullptr) : receive(first_message, kBytes, channel, nullptr);
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  check(cudaFree(first_message), "cudaFree");
}

void NcclPairs::send(const void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at(channel);
  check(ncclSend(data, static_cast<std::size_t>(bytes), ncclInt8, 1, communicator, stream), "ncclSend", communicator);
}

void NcclPairs::receive(void* data, std::int64_t bytes, const MessageChannel& channel, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at(channel);
  check(ncclRecv(data, static_cast<std::size_t>(bytes), ncclInt8, 0, communicator, stream), "ncclRecv", communicator);
}

void NcclPairs::abort() {
  for (const auto& [channel, communicator] : communicators_) static_cast<void>(ncclCommAbort(communicator));
  communicators_.clear();
}

}  // namespace pdl

#endif
