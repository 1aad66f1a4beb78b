// What the thread of a Python program takes to issue the parts of a pipeline's step, from the entries `python_...` of a
// profile's probe `host`.
//
//   const PythonHost python = python_host(host);
//   if (python.known) python.forward.call_ns + 4 * python.forward.layer_ns      // a forward of four layers
//
// A call (PipelineStage.forward_one_chunk, backward_one_chunk, ...) takes a time of its own, and one for each layer in
// it: torch.nn's modules are called one by one, and a split backward looks for each layer's node of the graph.
//
// Units: nanoseconds. Not here: C++ programs, whose issue times were measured with their layers.
#pragma once

#include <cstdint>

#include "sim/cost/host_times.hpp"

namespace pdl {

struct PythonCall {
  double call_ns = 0;
  double layer_ns = 0;
};

struct PythonHost {
  bool known = false;  // the profile has them
  PythonCall forward, backward, backward_input, backward_weight;
  double message_ns = 0;  // one batch_isend_irecv, from its call to its return
  double step_ns = 0;     // of a step: cutting the batch, zero_grad, losses
};

PythonHost python_host(HostTimes& host);

}  // namespace pdl
