// What the tests on GPUs ask of their host, and the options that they train with.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/executor/devices.hpp"
#include "runtime/executor/runtime_options.hpp"
#include "tests/support/catch.hpp"

namespace pdl {

inline RuntimeOptions gpu_options(const std::string& optimizer = "sgd", std::uint64_t seed = 11) {
  RuntimeOptions options;
  options.device = DeviceKind::cuda;
  options.seed = seed;
  options.learning_rate = optimizer == "adam" ? 0.001 : 10.0;
  return options;
}

inline bool enough_gpus(int count) {
  if (gpu_count() >= count) return true;
  WARN("not tested: needs " << count << " GPUs, this host has " << gpu_count());
  return false;
}

}  // namespace pdl
