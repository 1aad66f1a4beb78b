// What probes that use a device by themselves share: being on it, and whether it has groups of processes.
//
//   const OnDevice on_device(device);       // the device is the current one of this thread until the end of the scope
#pragma once

#include <c10/core/Device.h>

#if PDL_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

namespace pdl {

class OnDevice {
 public:
#if PDL_CUDA
  explicit OnDevice(c10::Device device) {
    if (device.is_cuda()) guard_.reset_device(device);
  }

 private:
  c10::cuda::OptionalCUDAGuard guard_;
#else
  explicit OnDevice(c10::Device) {}
#endif
};

/// NCCL on GPUs; on CPU Gloo, where LibTorch has it.
inline bool has_process_groups([[maybe_unused]] c10::Device device) {
#if PDL_GLOO
  return true;
#else
  return device.is_cuda();
#endif
}

}  // namespace pdl
