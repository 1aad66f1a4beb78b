// One training by PyTorch's own program, in Python: pdl-run --program pytorch. This process plans, starts the
// interpreter on runtime/pytorch/train.py, which trains and measures, and makes a run of what that has recorded: the
// same file as of any other run.
//
//   RunResult run = run_pytorch(make_plan(spec), options, {"python3"}, "pdl-run --program pytorch --gpus 2 ...");
//
// Pipelines so far. Not here: what is trained (runtime/pytorch/train.py).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/device/runtime_options.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// Throws InputError: a plan that PyTorch's program here has not, or that this host cannot run.
void check_pytorch_run(const Plan& plan, const RuntimeOptions& options);

/// What the Python program reads: settings, stages, layers, and every task in the order of the plan.
nlohmann::ordered_json pytorch_plan(const Plan& plan, const RuntimeOptions& options);

/// `python`: the interpreter, a path or a name that is looked for as the shell does. Throws as run_python
/// (runtime/pytorch/interpreter.hpp), and CannotRun for a loss that is not a finite number.
RunResult run_pytorch(const Plan& plan, const RuntimeOptions& options, const std::string& python,
                      const std::string& command);

}  // namespace pdl
