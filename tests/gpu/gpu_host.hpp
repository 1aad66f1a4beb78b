// What the tests on GPUs ask of their host, and the options that they train with.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "runtime/device/devices.hpp"
#include "runtime/device/runtime_options.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/program/step_program.hpp"
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

/// After a few steps the program, which has all replicas and stages, has the parameters of plain training on one GPU.
inline void check_trains_as_one_gpu(StepProgram& program, const Plan& plan, const RuntimeOptions& options) {
  constexpr int kSteps = 5;
  const at::Device first(at::kCUDA, 0);
  for (int step = 0; step < kSteps; ++step) program.step(nullptr);
  const Agreement agreement = compare_parameters(plan.spec, options, first, {}, program.parameters(),
                                                 train_reference(plan.spec, options, first, kSteps));
  CHECK(agreement.smallest_change > 1e-5);  // else equality would say nothing
  CHECK(agreement.equal);
}

}  // namespace pdl
