// NCCL communicators of several GPUs of this process, as ncclCommInitAll makes them: NCCL's own choice of rings, trees
// and protocols, under the same environment variables as any other program.
//
//   NcclWorkers workers({0, 1, 2, 3});
//   ncclSend(..., workers.of(0), stream);
#pragma once

#if PDL_CUDA
#include <cuda_runtime.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "runtime/comm/waiting.hpp"
#include "sim/io/error.hpp"

namespace pdl {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw CannotRun(std::string(what) + ": " + cudaGetErrorString(error));
}

inline void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw CannotRun(std::string(what) + ": " + ncclGetErrorString(result));
}

class NcclWorkers {
 public:
  explicit NcclWorkers(const std::vector<int>& devices) : comms_(devices.size()) {
    const Waiting waiting("NCCL communicators of " + std::to_string(devices.size()) + " GPUs");
    check_nccl(ncclCommInitAll(comms_.data(), static_cast<int>(devices.size()), devices.data()), "ncclCommInitAll");
  }
  NcclWorkers(const NcclWorkers&) = delete;
  NcclWorkers& operator=(const NcclWorkers&) = delete;
  ~NcclWorkers() {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }

  ncclComm_t of(int worker) const { return comms_[static_cast<std::size_t>(worker)]; }

 private:
  std::vector<ncclComm_t> comms_;
};

}  // namespace pdl
#endif
