// The headers of LibTorch and CUDA that files of the runtime share, compiled once a build (CMake's
// target_precompile_headers). CMake includes it by itself: a file still names the headers it uses.
//
// Tensors, autograd, process groups and CUDA, but not <torch/torch.h>: torch::nn and torch::optim make the compiler
// emit their modules into every file that sees them (15 s a file instead of 5). Only files that build modules or
// optimizers include those.
#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#if PDL_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
