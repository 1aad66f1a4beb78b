// How long a step takes, and what happened in it: runs a program for many steps.
//
//   RunResult run = measure_run(plan, options, *program, "pdl-run --gpus 4", nullptr);
//   write_run(run, "run.json");
//
//   warm-up steps     dropped
//   measured steps    wall time each, from before the first issue to all devices idle; nothing is recorded. With the
//                     warm-up steps before them they are RunResult::steps, each with its time and its loss
//   recorded steps    the same, with a SpanRecorder: the timeline is that of the one nearest to their median. Where
//                     steps overlap (sim/run/metrics.hpp), as many as measured steps, and the step time is taken from
//                     them: the time of the worker that is at it longest, by its spans
//
// Where workers are processes, all of them wait for each other before a step (Rendezvous::barrier); the step is from
// the first that starts to the last whose device is idle, on the clock that they share. On several hosts there is no
// such clock: every worker's times count from when it left that barrier. Extra facts of the run:
//
//   extra.losses        one number a step, warm-up and recorded steps included
//   extra.warmup_ms     the time of each warm-up step, in order
//   extra.step_time_stddev_ms   standard deviation of the measured steps
//   extra.skipped_steps amp-fp16: measured steps whose gradients were not finite, which are no part of any statistic
//   extra.skipped       all such steps, by their place in extra.losses
//   extra.loss_scale    the scale at the end
//   extra.recording     step_time_ms (median of the recorded steps), overhead_fraction (against the measured median),
//                       clock_uncertainty_us (of the recorded step that is the timeline)
//
//   extra.process_peak_memory_bytes   on the CPU, one a process (runtime/device/devices.hpp)
//
// Memory of GPUs: the most that LibTorch had allocated at any time since the process started or reset_peak_memory().
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

class Rendezvous;

struct Quartiles {
  double p25 = 0;
  double median = 0;
  double p75 = 0;
};

/// Linear between the two nearest values, as numpy.percentile. At least one value.
Quartiles quartiles(std::vector<double> values);

/// Is told before the first step and after each, by the thread that called measure().
using StepsDone = std::function<void(std::int64_t done, std::int64_t of)>;

/// `command`: goes into the environment. With `rendezvous` (workers are processes; options.rank is this one), only the
/// result of worker 0 is complete. Throws CannotRun, naming the step, if the loss is not a finite number; and if every
/// measured or every recorded step was skipped: there is no time of a step then.
RunResult measure_run(const Plan& plan, const RuntimeOptions& options, StepProgram& program, const std::string& command,
                      Rendezvous* rendezvous, const StepsDone& steps_done = {});

struct RunRecord;

/// The run of what all processes know. Throws CannotRun as measure_run().
RunResult run_of_record(const Plan& plan, const RunRecord& record, nlohmann::json environment);

}  // namespace pdl
