#include "runtime/comm/nccl_calls.hpp"

#if PDL_CUDA

#include <algorithm>
#include <stdexcept>

namespace pdl {

void check_nccl(ncclResult_t result, const char* call, ncclComm_t communicator) {
  if (result == ncclSuccess) return;
  const char* detail = ncclGetLastError(communicator);
  throw std::runtime_error(std::string("NCCL: ") + call + ": " + ncclGetErrorString(result) +
                           (detail && *detail ? std::string(" (") + detail + ")" : ""));
}

void check_cuda(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + call + ": " + cudaGetErrorString(result));
}

ncclUniqueId share_nccl_id(const std::string& key, bool is_first, c10d::Store& store) {
  ncclUniqueId id;
  if (is_first) {
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    store.set(key, std::vector<std::uint8_t>(id.internal, id.internal + sizeof id.internal));
    return id;
  }
  const std::vector<std::uint8_t> bytes = store.get(key);
  if (bytes.size() != sizeof id.internal)
    throw std::runtime_error("NCCL: an id of " + std::to_string(bytes.size()) + " bytes");
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(id.internal));
  return id;
}

}  // namespace pdl

#endif
