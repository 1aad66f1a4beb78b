#include "runtime/device/devices.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/PeerToPeerAccess.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace pdl {

int gpu_count() {
#if PDL_CUDA
  return c10::cuda::device_count();
#else
  return 0;
#endif
}

c10::Device device_of(const RuntimeOptions& options, int worker) {
  if (options.device == DeviceKind::cpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.device_index(worker)));
}

void check_devices(const RunSpec& spec, const RuntimeOptions& options) {
  if (options.device == DeviceKind::cpu) return;
  const int there = gpu_count();
  if (there == 0) {
#if PDL_CUDA
    throw InputError("--device", "cuda on a host without a usable GPU", "cpu");
#else
    throw InputError("--device", "cuda in a program built without CUDA", "cpu");
#endif
  }
  const bool enough = options.rank < 0 ? spec.gpus <= there : options.device_index(options.rank) < there;
  if (enough) return;
  throw InputError("--gpus", std::to_string(spec.gpus), "at most " + std::to_string(there) + ": this host has no more");
}

void set_up_libtorch(Dtype dtype, DeviceKind device) {
  if (dtype == Dtype::tf32 && device == DeviceKind::cpu) {
    throw InputError("--dtype", "tf32 on CPU", "fp32: TF32 is a format of GPUs");
  }
  if (device == DeviceKind::cpu) {
    at::set_num_threads(1);
  } else {
    at::globalContext().lazyInitDevice(at::kCUDA);
    at::globalContext().setAllowTF32CuBLAS(dtype == Dtype::tf32);
  }
}

std::vector<std::string> device_warnings([[maybe_unused]] const Plan& plan,
                                         [[maybe_unused]] const RuntimeOptions& options) {
  std::vector<std::string> warnings;
#if PDL_CUDA
  if (options.device != DeviceKind::cuda || options.rank >= 0) return warnings;
  std::set<std::pair<int, int>> seen;
  for (const Work& work : plan.graph.works) {
    if (!is_transfer(work.kind) || !seen.emplace(work.from_worker, work.to_worker).second) continue;
    const int from = options.device_index(work.from_worker);
    const int to = options.device_index(work.to_worker);
    if (at::cuda::get_p2p_access(static_cast<c10::DeviceIndex>(from), static_cast<c10::DeviceIndex>(to))) continue;
    warnings.push_back("GPU " + std::to_string(from) + " has no direct access to GPU " + std::to_string(to) +
                       ": copies go over the host");
  }
#endif
  return warnings;
}

std::string card_name([[maybe_unused]] int device_index) {
#if PDL_CUDA
  return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device_index))->name;
#else
  return {};
#endif
}

std::int64_t peak_memory_bytes([[maybe_unused]] int device_index) {
#if PDL_CUDA
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device_index));
  return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
#else
  return 0;
#endif
}

std::int64_t process_peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::int64_t kib = 0;
    if (key == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

void reset_process_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // 5: the peak of the resident memory
}

void reset_peak_memory([[maybe_unused]] int devices) {
#if PDL_CUDA
  at::globalContext().lazyInitDevice(at::kCUDA);
  at::cuda::clearCublasWorkspaces();
  c10::cuda::CUDACachingAllocator::emptyCache();
  for (int d = 0; d < devices; ++d) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(d));
  }
#endif
}

}  // namespace pdl
