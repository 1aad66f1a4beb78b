// What a measured run says beside its times: losses, warm-up, skipped steps, how far the recorded step is from the
// others (RunResult::extra, as runtime/measure writes it).
//
//   median step 3.71 ms, recorded step 6.91 ms: recording overhead 0.86
//   -> shares of the recorded step say little about the others
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

struct MeasuredFacts {
  std::vector<double> losses;     // one a step, warm-up and recorded steps included
  std::vector<double> warmup_ms;  // of each warm-up step
  std::vector<double> steps_ms;   // of each step after them; empty in runs from before steps were kept one by one
  std::optional<double> step_time_stddev_ms;
  /// On the CPU: the most memory that each process has had resident, LibTorch's own included; one process where the
  /// workers are threads. Empty on GPUs, and in runs from before it was known.
  std::vector<std::int64_t> process_peak_memory_bytes;
  std::optional<std::int64_t> skipped_steps;  // amp-fp16: of the measured steps
  std::vector<std::int64_t> skipped;          // amp-fp16: all of them, by their place in `losses`
  /// The step whose spans were recorded / the median step - 1: what is read off the timeline is of that one step.
  std::optional<double> recording_overhead_fraction;
};

/// What the run does not say is empty. Throws InputError naming a key whose value is of another kind.
MeasuredFacts measured_facts(const RunResult& run);

/// "measured on NVIDIA H200, predicted from NVIDIA H100 80GB HBM3" where the two environments name other cards; else
/// nothing.
std::string other_card_text(const nlohmann::json& measured, const nlohmann::json& profile);

/// How much longer (shorter: negative) the recorded step was than the median one, where that is more than
/// kRecordingTolerance; nothing of predictions and of runs that do not say it.
inline constexpr double kRecordingTolerance = 0.10;
std::optional<double> unusual_recording(const RunResult& run);

/// The devices of the run, or those that its profile is of, are processors rather than GPUs.
bool is_on_cpu(const RunResult& run);

/// The card that the run was measured on, or its profile: "NVIDIA H200". Empty: synthetic costs, or it is not said.
std::string card_of(const RunResult& run);

/// The losses of the steps that were not skipped: training as it went on.
std::vector<double> losses_of_training(const MeasuredFacts& facts);

}  // namespace pdl
