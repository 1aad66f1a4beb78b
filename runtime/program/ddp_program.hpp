// DistributedDataParallel: a process a GPU, the whole model on each, a part of the batch each, gradients averaged by
// c10d's own Reducer while the backward runs.
//
//   auto program = make_ddp_program(plan, options, store, /*one_host=*/true);     // options.rank: which replica
//   program->step(nullptr);
//
// The program is PyTorch's: zero_grad, then forward, loss, backward of every micro-batch of every accumulation round
// (torch/nn/parallel/distributed.py: prepare_for_forward, prepare_for_backward where gradients are
// exchanged, at the end of a round; nothing under no_sync), then the optimizer, with GradScaler for amp-fp16.
// Everything on the default stream of the device; all-reduces on the stream of the process group. The Reducer is given
// the plan's buckets, which are those that it would make for itself after the first backward (checked). A slice of
// fewer samples than others weighs less: the averaged gradient is that of the batch.
//
// A recorded step is cut into the plan's tasks where the Reducer does things: a hook behind the last gradient of a
// bucket (end of a backward part, begin of the copy), the call of the all-reduce, and the copies back at the end. What
// a hook cannot tell apart: of a bucket of several tensors, the copies of all but the last lie in the backward.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/device/runtime_options.hpp"
#include "runtime/program/step_program.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

class AllReduceWatcher;

/// Refuses what this program cannot do, before anything is allocated. Throws InputError: a plan of another strategy,
/// synthetic costs, devices that are not there, a transport that the device does not have.
void check_ddp_plan(const Plan& plan, const RuntimeOptions& options);

/// `store`: shared by all replicas and used for nothing else; a key-value store in which they find each other.
/// `one_host`: Gloo may use the loopback interface. `watcher`, if any, is told of every all-reduce. Throws as
/// check_ddp_plan; PeerLost, from a step too, when another worker is gone.
std::unique_ptr<StepProgram> make_ddp_program(const Plan& plan, const RuntimeOptions& options,
                                              const c10::intrusive_ptr<c10d::Store>& store, bool one_host,
                                              AllReduceWatcher* watcher = nullptr);

}  // namespace pdl
