// Which kernels an operation would launch, without running it.
//
//   std::optional<std::vector<CapturedKernel>> kernels = capture_kernels([&] { at::addmm_out(y, b, x, w); });
//
// The operation is captured into a graph of CUDA, whose nodes say each kernel's name, grid and cluster; the driver says
// how many blocks of it a multiprocessor holds. Nothing is executed, so memory need not hold data: some 50 to 100 us an
// operation. What a library has to set up (its handle, its workspace) must have been there before: run one such
// operation first. Not here: durations (calibrate/probe/device_timer.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pdl {

struct CapturedKernel {
  std::string name;
  std::int64_t grid_x = 1, grid_y = 1, grid_z = 1;  // in blocks
  std::int64_t cluster_x = 1, cluster_y = 1;        // blocks that are placed together
  std::int64_t resident = 1;                        // blocks a multiprocessor holds at once
  std::int64_t blocks() const { return grid_x * grid_y * grid_z; }
};

/// In the order of the launches, of the current stream, which must not be the default stream; memory operations are
/// left out. Nothing where the capture fails: a driver without these calls (before CUDA 12.3), an operation that waits
/// for the device, a build without CUDA.
std::optional<std::vector<CapturedKernel>> capture_kernels(const std::function<void()>& operation);

}  // namespace pdl
