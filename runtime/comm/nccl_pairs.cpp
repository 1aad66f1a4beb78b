#include "runtime/comm/nccl_pairs.hpp"

#if PDL_CUDA

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

ncclUniqueId share_id(WorkerPair pair, int worker, c10d::Store& store) {
  const std::string key = "nccl/" + std::to_string(pair.first) + "/" + std::to_string(pair.second);
  ncclUniqueId id;
  if (worker == pair.first) {
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

NcclPairs::NcclPairs(int worker, std::vector<WorkerPair> pairs, c10d::Store& store) : worker_(worker) {
  // The same order on all workers: nobody waits in a pair for one who waits in another pair for him.
  std::sort(pairs.begin(), pairs.end());
  for (const WorkerPair& pair : pairs) {
    if (pair.first != worker && pair.second != worker) continue;
    ncclComm_t communicator = nullptr;
    const ncclUniqueId id = share_id(pair, worker, store);
    check(ncclCommInitRank(&communicator, 2, id, pair.first == worker ? 0 : 1), "ncclCommInitRank");
    communicators_[pair] = communicator;
  }
}

NcclPairs::~NcclPairs() {
  for (const auto& [pair, communicator] : communicators_) static_cast<void>(ncclCommDestroy(communicator));
}

void NcclPairs::send(const void* data, std::int64_t bytes, int to, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at({worker_, to});
  check(ncclSend(data, static_cast<std::size_t>(bytes), ncclInt8, 1, communicator, stream), "ncclSend", communicator);
}

void NcclPairs::receive(void* data, std::int64_t bytes, int from, CUstream_st* stream) {
  ncclComm_t communicator = communicators_.at({from, worker_});
  check(ncclRecv(data, static_cast<std::size_t>(bytes), ncclInt8, 0, communicator, stream), "ncclRecv", communicator);
}

void NcclPairs::abort() {
  for (const auto& [pair, communicator] : communicators_) static_cast<void>(ncclCommAbort(communicator));
  communicators_.clear();
}

}  // namespace pdl

#endif
