// nn.DataParallel: one process, the model on GPU 0, and in every forward a copy of it on each of the others.
//
//   auto program = make_dp_program(plan, options);     // plan.parallel.program == Program::data_parallel
//   program->step(nullptr);
//
// A micro-batch, as torch/nn/parallel/{data_parallel,replicate,parallel_apply,_functions}.py do it (PyTorch 2.11):
//
//   scatter      slices of the input to the other GPUs                       the caller's thread
//   broadcast    the parameters, in chunks                                   the caller's thread
//   forward      of every replica                                            a thread a GPU, autocast in each
//   gather       the outputs to GPU 0; the loss there                        the caller's thread
//   backward     autograd: scatter of the output's gradient, every replica's backward, the sum of the replicas'
//                gradients to GPU 0 in chunks                                          autograd's thread of each GPU
//
// then the optimizer on GPU 0, with GradScaler for amp-fp16. GPUs without samples (Plan::replica_rows) do nothing;
// where one GPU has all of them, it trains as if it were alone. Everything runs on the default stream of each GPU. On
// CPU all "GPUs" are the CPU, and autograd has one thread.
//
// Memory is held as long as there: the copies of the parameters until the backward, the gathered output of a
// micro-batch until there is that of the next, every replica's gradients until all have been added up.
//
// A straggler is a forward thread that is asleep from the beginning of the step. What no task of the plan is: GPU 0's
// copy of its own slice when outputs are gathered; with a sleep before the backward, the gradient of the loss.
#pragma once

#include <memory>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// Refuses what this program cannot do, before anything is allocated. Throws InputError: a plan of another strategy,
/// synthetic costs, more GPUs than there are.
void check_dp_plan(const Plan& plan, const RuntimeOptions& options);

/// Throws as check_dp_plan, and InputError for a dtype that set_up_libtorch (runtime/device/devices.hpp) refuses.
std::unique_ptr<StepProgram> make_dp_program(const Plan& plan, const RuntimeOptions& options);

}  // namespace pdl
