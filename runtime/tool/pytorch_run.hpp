// One training by PyTorch's own program, in Python: pdl-run --program pytorch. This process plans, the interpreter runs
// runtime/pytorch/train.py, which trains and measures, and this makes a run of what that has recorded: the same file as
// of any other run.
//
//   PythonProgram trainer("python3", "train.py");        // for as many runs as there are
//   RunResult run = run_pytorch(make_plan(spec), options, trainer, "pdl-run --program pytorch --gpus 2 ...");
//
// Not here: what is trained (runtime/pytorch/train.py).
#pragma once

#include <string>

#include "runtime/device/runtime_options.hpp"
#include "runtime/pytorch/interpreter.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// Throws InputError before anything is started: a plan that PyTorch's program here has not, or that this host cannot
/// run; then as PythonProgram::ask (runtime/pytorch/interpreter.hpp), which is CannotRun too for a loss that is not a
/// finite number.
RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, PythonProgram& trainer,
                      const std::string& command);

}  // namespace pdl
