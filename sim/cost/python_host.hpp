// What the thread of a Python program takes to issue the parts of a step, from the entries `python_...` of a profile's
// probe `host` (runtime/pytorch/host_times.py measures them).
//
//   const PythonHost python = python_host(plan, host);
//   if (python.known) python.forward.call_ns + 4 * python.forward.layer_ns      // a forward of four layers
//
// A call takes a time of its own, and one for each layer in it: torch.nn's modules are called one by one, and a split
// backward looks for each layer's node of the graph. Of a pipeline every stage's forward and backward is a call
// (PipelineStage.forward_one_chunk, backward_one_chunk, ...); elsewhere a backward is one call through all layers,
// loss.backward(). Optimizers loop over their tensors (torch.optim, foreach).
//
// Units: nanoseconds. Not here: C++ programs, whose issue times were measured with their layers.
#pragma once

#include <cstdint>
#include <map>

#include "sim/cost/host_times.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

struct PythonCall {
  double call_ns = 0;
  double layer_ns = 0;
  std::map<const LayerKind*, double> of_blocks_ns = {};  // of a block of the kind, with all of its modules
};

struct PythonHost {
  bool known = false;  // the profile has them
  PythonCall forward, backward, backward_input, backward_weight;
  PythonCall optimizer;     // of all stages that one optimizer has
  double zero_grad_ns = 0;  // of a process, before anything else
  double scaler_ns = 0;     // amp-fp16: GradScaler's part of it, its wait for the GPU included
  double loss_ns = 0;       // of a pipeline's last stage; elsewhere it is in the backward
  double step_ns = 0;       // of a pipeline's step, beside its actions: cutting the batch, the last waits
  double message_ns = 0;    // one batch_isend_irecv, and the schedule's action around it
  // Of replicas of a pipeline ddp_forward is in each forward: its part that prepares the Reducer is too much there.
  double hook_ns = 0, all_reduce_ns = 0;  // DDP, in its backward: of a tensor, of a bucket
  /// DataParallel: what the main thread does before the replicas' forwards, which are Python too.
  double replicate_ns = 0;
};

/// Of the plan's program.
PythonHost python_host(const Plan& plan, HostTimes& host);

/// All of it takes so many times as long.
PythonHost slower(PythonHost python, double factor);

}  // namespace pdl
