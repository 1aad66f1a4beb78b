// One training by PyTorch's own program, in Python: pdl-run --program pytorch. This process plans, starts the
// interpreter on runtime/pytorch/train.py, which trains and measures, and makes a run of what that has recorded: the
// same file as of any other run.
//
//   RunResult run = run_pytorch(make_plan(spec), options, {"python3"}, "pdl-run --program pytorch --gpus 2 ...");
//
// Pipelines so far. Not here: what is trained (runtime/pytorch/train.py).
#pragma once

#include <string>

#include "runtime/device/runtime_options.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// `python`: the interpreter, a path or a name that is looked for as the shell does. Throws InputError before anything
/// is started: a plan that PyTorch's program here has not, or that this host cannot run; then as run_python
/// (runtime/pytorch/interpreter.hpp), which is CannotRun too for a loss that is not a finite number.
RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, const std::string& python,
                      const std::string& command);

}  // namespace pdl
