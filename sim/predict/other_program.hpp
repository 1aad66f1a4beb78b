// The same settings by the other program of the step: what PyTorch takes where pdl-run is predicted, and the other way.
//
//   other_program(spec of "--gpus 2 --schedule gpipe", &costs, {}, 52)   {pytorch, "ScheduleGPipe", 121.3, ...}
//   other_program(spec of "--gpus 2 --strategy ddp", &costs, {}, 52)   {pytorch, "", 3.6, ...}; without a word of
//                                                                      Python in the profile {pytorch, "", nothing}
//
// Pipelines with a worker a GPU differ; of DDP, DataParallel, the course's programs and a single GPU both programs
// issue the same kernels, PyTorch's from Python: they are told apart where the profile has Python's host times.
#pragma once

#include <optional>
#include <string>

#include "sim/cost/cost_profile.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

struct OtherProgram {
  ProgramOf program = ProgramOf::pytorch;
  std::string pytorch_class;      // of the schedule; empty: of none
  std::optional<double> step_ms;  // nothing: the same kernels, and the profile does not know Python's host times
  bool python_is_known = true;    // false: the profile has no host times of Python
};

/// The settings by that program: its workers, and what moves data between them, are its own; one thread for all GPUs
/// stays one. Throws InputError, naming the setting, where that program has no such run.
RunSpec by_program(const RunSpec& spec, ProgramOf program);

/// Nothing where there is no such thing: textbook costs, profiles of a CPU, what torch.distributed.pipelining has not,
/// what the profile cannot price, what needs more memory than a GPU may; and for steps of more than 200,000 tasks, to
/// predict which again would take as long. `memory_limit_bytes` as PredictOptions.
std::optional<OtherProgram> other_program(const RunSpec& spec, const CostProfile* profile,
                                          std::optional<std::int64_t> memory_limit_bytes, std::size_t tasks);

}  // namespace pdl
