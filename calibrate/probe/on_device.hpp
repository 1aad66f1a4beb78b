// What probes of a host share: being on a device, waiting for it, and the time since.
//
//   const OnDevice on_device(device);       // the device is the current one of this thread until the end of the scope
//   elapsed_us([&] { work(); })             // at least .001
//   synchronize(device);
#pragma once

#include <c10/core/Device.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "runtime/trace/span_recorder.hpp"

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

/// Until the device has done what it was given.
inline void synchronize(c10::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

/// A clock of whole nanoseconds: nothing takes no time.
inline double us_since(std::int64_t begin_ns) {
  return static_cast<double>(std::max<std::int64_t>(steady_now_ns() - begin_ns, 1)) / 1e3;
}

inline double elapsed_us(const std::function<void()>& work) {
  const std::int64_t begin_ns = steady_now_ns();
  work();
  return us_since(begin_ns);
}

}  // namespace pdl
