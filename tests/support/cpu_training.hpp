// Training on CPU in tests: its options, and that recording does not change it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {

/// A learning rate so large that the parameters visibly move in a few steps.
inline RuntimeOptions cpu_training(const std::string& optimizer, std::uint64_t seed) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = seed;
  options.learning_rate = optimizer == "sgd" ? 1.0 : 0.01;
  return options;
}

/// Two programs of the same plan; one of them is recorded.
inline void check_recording_changes_nothing(StepProgram& plain, StepProgram& recorded, SpanRecorder& recorder) {
  for (int step = 0; step < 3; ++step) {
    plain.step(nullptr);
    recorder.begin_step();
    recorded.step(&recorder);
    recorder.end_step();
  }
  const std::vector<at::Tensor> a = plain.parameters(), b = recorded.parameters();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(at::equal(a[i], b[i]));
}

}  // namespace pdl
