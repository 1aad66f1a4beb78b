// What this process sees of the host's devices, in terms that need no CUDA headers.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// GPUs that this process can use; 0 without a driver, or in a build without CUDA.
int gpu_count();

/// Where a worker computes.
c10::Device device_of(const RuntimeOptions& options, int worker);

/// Throws InputError naming --gpus or --device if `spec` needs devices that are not there; in a process that is one of
/// several (options.rank >= 0), if its own device is not there.
void check_devices(const RunSpec& spec, const RuntimeOptions& options);

/// Settings of LibTorch for all of this process: matrix products in TF32 or in fp32; on CPU, one thread an operation,
/// because every worker has its own. AMP: products outside autocast are those of fp32. Throws InputError for TF32 on
/// CPU.
void set_up_libtorch(Dtype dtype, DeviceKind device);

/// What makes this host slower than it need be: pairs of GPUs whose copies go over the host's memory.
std::vector<std::string> device_warnings(const Plan& plan, const RuntimeOptions& options);

/// "NVIDIA H100 80GB HBM3"; empty in a build without CUDA.
std::string card_name(int device_index);

/// The largest number of bytes that LibTorch has had allocated on a GPU since reset_peak_memory().
std::int64_t peak_memory_bytes(int device_index);

/// The most bytes that this process has had resident since it started or reset_process_peak_memory(), everything in it
/// counted, LibTorch too; 0 where the system does not say.
std::int64_t process_peak_memory_bytes();

/// Without effect where the system does not allow it: then peaks are those since the process started.
void reset_process_peak_memory();

/// Returns LibTorch's unused memory to the devices and starts peaks anew. Between runs of one process.
void reset_peak_memory(int devices);

}  // namespace pdl
