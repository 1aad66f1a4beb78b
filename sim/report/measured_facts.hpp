// What a measured run says beside its times: losses, warm-up, skipped steps (RunResult::extra, as runtime/measure writes it).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/report/run_result.hpp"

namespace pdl {

struct MeasuredFacts {
  std::vector<double> losses;     // one a step, warm-up and recorded steps included
  std::vector<double> warmup_ms;  // of each warm-up step
  std::optional<double> step_time_stddev_ms;
  std::optional<std::int64_t> skipped_steps;  // amp-fp16: of the measured steps
  std::vector<std::int64_t> skipped;          // amp-fp16: all of them, by their place in `losses`
};

/// What the run does not say is empty. Throws InputError naming a key whose value is of another kind.
MeasuredFacts measured_facts(const RunResult& run);

/// The losses of the steps that were not skipped: training as it went on.
std::vector<double> losses_of_training(const MeasuredFacts& facts);

}  // namespace pdl
