// The course's programs: one process, one thread that issues for all GPUs, layers split over them, autograd's backward.
//
//   auto program = make_autograd_program(plan, options);     // plan.parallel.program == Program::one_thread
//   program->step(nullptr);
//
// Which program it is follows from the order of the plan's tasks (2 stages, 2 micro-batches):
//
//   mp, option A    F0 -> F0  B0 <- B0  F1 -> F1  B1 <- B1      each micro-batch forward, then backward
//   option B        F0 -> F0  F1 -> F1  B0 <- B0  B1 <- B1      all forwards, then all backwards
//   option C        F0 -> F0  F1 -> F1  B0 <- B0 ...            F0, then F_i B_(i-1), then the last B
//
// and so for every accumulation round: the losses of each are divided by the number of rounds, the optimizer steps
// once. With mixed precision forwards and losses run under autocast; with amp-fp16 the optimizer is GradScaler's, of
// all GPUs together. A forward task is the layers of a stage on its GPU; an arrow is `.to(device)`; the backward of a
// micro-batch through all stages, loss first, is one call of loss.backward(), in which autograd's own thread of each
// GPU issues. Everything runs on the default stream of each GPU. On CPU all "GPUs" are the CPU, and an arrow is a copy
// both ways.
//
// Not here: schedules in which GPUs follow different orders (runtime/program/pipeline_program.hpp).
#pragma once

#include <memory>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// Refuses what such a program cannot do, before anything is allocated. Throws InputError: plans of other kinds of
/// workers, synthetic costs, more GPUs than there are; CannotRun, naming the task: an order in which a backward is not
/// one call through all stages, or a task comes before the one that feeds it.
void check_autograd_plan(const Plan& plan, const RuntimeOptions& options);

/// Throws as check_autograd_plan, and InputError for a dtype that set_up_libtorch (runtime/device/devices.hpp)
/// refuses.
std::unique_ptr<StepProgram> make_autograd_program(const Plan& plan, const RuntimeOptions& options);

}  // namespace pdl
