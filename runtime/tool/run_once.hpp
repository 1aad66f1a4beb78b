// One training, measured in this process: on all its workers, or on one of several processes.
//
//   RunResult run = run_once(make_plan(spec), options, "pdl-run --gpus 4", nullptr, Check::no);
#pragma once

#include <string>

#include "runtime/device/runtime_options.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

class Rendezvous;

/// Refuses what this host cannot run, before anything is started. Throws InputError.
void check_run(const Plan& plan, const RuntimeOptions& options);

/// `check`: afterwards trains the same model by the plainest means and compares the parameters; of mixed precision the
/// losses, of a training of its own with a learning rate that makes them fall. What was found goes to standard error
/// and into extra.check. Throws std::runtime_error if they differ: the training is wrong.
RunResult run_once(const Plan& plan, const RuntimeOptions& options, const std::string& command, Rendezvous* rendezvous,
                   bool check);

}  // namespace pdl
