// Executes the graph of a pipeline plan: one host thread and one device a worker, every task of the graph on the stream
// that the graph gives it.
//
//   auto program = make_pipeline_program(plan, options);     // all workers in this process
//   program->step(nullptr);
//
// A worker's thread walks its tasks in the order of their ids. Before a task it waits for what the graph says: a task
// of its own by an event (cudaStreamWaitEvent), a task of another worker by looking whether that has been issued in
// this step (TaskBoard) and then by its event. So hosts run ahead of their devices and devices never wait for a host
// that is not late. On CPU a task runs at once, on its worker's thread.
//
// Transport copy: the sender writes straight into the receiver's buffer, on CUDA by its copy engine. Transports nccl
// and gloo: send and receive. See runtime/executor/dependencies.hpp for what keeps buffers from being overwritten.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

class Rendezvous;

/// Refuses what this program cannot do, before anything is allocated. Throws InputError: transports that the device or
/// the kind of workers does not have, synthetic costs, more GPUs than there are, a schedule that is a part of a step;
/// CannotRun: messages sent in another order than they are received, a deadlock (runtime/executor/dependencies.hpp).
void check_pipeline_plan(const Plan& plan, const RuntimeOptions& options);

/// `rendezvous`: the other workers, when this process is one of several (options.rank >= 0), else null. `purpose`: of
/// this program, another one for each that meets at one rendezvous. Throws as check_pipeline_plan, and CannotRun if a
/// device has too little memory.
std::unique_ptr<StepProgram> make_pipeline_program(const Plan& plan, const RuntimeOptions& options,
                                                   Rendezvous* rendezvous = nullptr,
                                                   const std::string& purpose = "measured");

}  // namespace pdl
