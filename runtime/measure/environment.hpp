// Where something was measured: cards, versions, clocks, date, command. Goes into every file of measurements.
//
//   nlohmann::json environment = describe_environment(options, 4, "pdl-run --gpus 4 ...");
//   CardState state = read_card_state(device);       // clock and power at this moment
//
// Clocks and power are read through the driver's management library (libnvidia-ml.so.1, loaded when there is one),
// never set. No host names, no serial numbers. Units are in the keys.
#pragma once

#include <c10/core/Device.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/device/runtime_options.hpp"

namespace pdl {

struct CardState {
  std::optional<double> sm_clock_mhz;
  std::optional<double> power_w;
};

/// Empty on CPU, and where the library is missing.
CardState read_card_state(c10::Device device);

/// The GPUs of this process's own workers at this moment: sm_clock_mhz, largest_sm_clock_mhz, power_w, power_limit_w.
/// What is not known is left out. Of the others only their processes know which GPU they have. Empty on CPU.
nlohmann::json describe_gpus(const RuntimeOptions& options, int workers);

/// Keys: device, card (of worker 0), count, multiprocessors, memory_capacity_bytes, driver, cuda, nccl, torch, cpu,
/// cores, date (UTC), command. What is not known is left out. With the key gpus, describe_gpus() of all workers, it is
/// complete.
nlohmann::json describe_environment(const RuntimeOptions& options, int workers, const std::string& command);

}  // namespace pdl
