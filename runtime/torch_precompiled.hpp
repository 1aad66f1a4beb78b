// The headers of LibTorch, CUDA and the C++ library that files of the runtime share, compiled once a build
// (CMake's target_precompile_headers). CMake includes it by itself: a file still names the headers it uses.
#pragma once

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#if PDL_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
