#include "calibrate/probe/kernel_trace.hpp"

#include <algorithm>

#if PDL_CUPTI
#include <cuda_runtime.h>
#include <cupti.h>
#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <mutex>
#endif

namespace pdl {

std::int64_t resident_blocks(const MultiprocessorLimits& limits, std::int64_t threads_a_block,
                             std::int64_t registers_a_thread, std::int64_t shared_bytes_a_block) {
  const std::int64_t warps = (threads_a_block + 31) / 32;
  const std::int64_t registers_a_warp = (registers_a_thread * 32 + 255) / 256 * 256;
  std::int64_t blocks = std::min(limits.blocks, limits.threads / std::max<std::int64_t>(warps * 32, 32));
  if (registers_a_warp > 0)
    blocks = std::min(blocks, limits.registers / registers_a_warp / std::max<std::int64_t>(warps, 1));
  blocks = std::min(blocks, limits.shared_bytes / (shared_bytes_a_block + limits.reserved_shared_bytes_a_block));
  return std::max<std::int64_t>(blocks, 1);
}

#if PDL_CUPTI

namespace {

// CUPTI calls back into these without an argument of ours.
std::mutex traced_mutex;
std::vector<std::pair<std::uint64_t, TracedKernel>> traced;  // by start
MultiprocessorLimits traced_limits;

std::string readable(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  // The name alone says which kernel it is; its template arguments and parameters fill pages.
  const std::size_t cut = std::min(name.find('<'), name.find('('));
  if (cut != std::string::npos && cut > 0) name.resize(cut);
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *size = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *most_records = 0;
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  const std::lock_guard lock(traced_mutex);
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    const std::int64_t blocks = std::int64_t{kernel->gridX} * kernel->gridY * kernel->gridZ;
    const std::int64_t threads = std::int64_t{kernel->blockX} * kernel->blockY * kernel->blockZ;
    traced.emplace_back(
        kernel->start,
        TracedKernel{readable(kernel->name), static_cast<double>(kernel->end - kernel->start), blocks,
                     resident_blocks(traced_limits, threads, kernel->registersPerThread,
                                     std::int64_t{kernel->staticSharedMemory} + kernel->dynamicSharedMemory)});
  }
  std::free(buffer);
}

MultiprocessorLimits limits_of(int device) {
  cudaDeviceProp properties;
  MultiprocessorLimits limits;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return limits;
  limits.threads = properties.maxThreadsPerMultiProcessor;
  limits.blocks = properties.maxBlocksPerMultiProcessor;
  limits.registers = properties.regsPerMultiprocessor;
  limits.shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor);
  limits.reserved_shared_bytes_a_block = static_cast<std::int64_t>(properties.reservedSharedMemPerBlock);
  return limits;
}

/// A device is asked once: the answer takes the driver milliseconds.
const MultiprocessorLimits& limits_of_current_device() {
  static std::mutex mutex;
  static std::map<int, MultiprocessorLimits> known;
  static const MultiprocessorLimits unknown;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return unknown;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  return found != known.end() ? found->second : known.emplace(device, limits_of(device)).first->second;
}

}  // namespace

std::vector<TracedKernel> trace_kernels(const std::function<void()>& work) {
  static const bool registered = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
  if (!registered || cudaDeviceSynchronize() != cudaSuccess) return {};
  traced_limits = limits_of_current_device();
  traced.clear();
  if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) return {};
  work();
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(0);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::sort(traced.begin(), traced.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TracedKernel> kernels;
  for (auto& [start, kernel] : traced) kernels.push_back(std::move(kernel));
  return kernels;
}

#else

std::vector<TracedKernel> trace_kernels(const std::function<void()>& work) {
  work();
  return {};
}

#endif

}  // namespace pdl
