// Calls of NCCL and CUDA whose failures are exceptions, and how the members of a communicator get its id. Only where
// NCCL was found (PDL_CUDA).
#pragma once

#if PDL_CUDA

#include <cuda_runtime.h>
#include <nccl.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pdl {

/// Throws std::runtime_error naming `call`. `communicator`: what NCCL knows more about, or null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t communicator = nullptr);
void check_cuda(cudaError_t result, const char* call);

/// The first member makes the id and puts it into the store; the others wait for it there.
ncclUniqueId share_nccl_id(const std::string& key, bool is_first, c10d::Store& store);

}  // namespace pdl

#endif
