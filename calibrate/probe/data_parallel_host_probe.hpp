// Probes of what data parallelism and mixed precision cost the host.
//
//   host, implementation autograd:
//     reducer_hook      c10d's Reducer, for each parameter of a backward: its hook and the division into the bucket
//     reducer_prepare   its prepare_for_forward and prepare_for_backward, for the 16 parameters of the small model
//     collective_issue  one call of ProcessGroup::allreduce (transport nccl, gloo); workers 1: in a group of one
//     scaler_wait       a stream's idle time round a blocking found_inf.item(): from the end of the work before it to
//                       the first thing that the host gives the device after it
//     sleep_overrun     what a sleep of 10 ms takes beyond 10 ms
//
// reducer_hook is the difference of two medians, a backward of 8 layers of width 64 with a Reducer (a group of one
// rank, one bucket, gradients as views of it, so that nothing is copied out) and one without, less the call of its one
// all-reduce, over the 16 parameters; there is one value a pair of measurements.
// Units: microseconds in the samples.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_data_parallel_host(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                              const Progress& progress);

}  // namespace pdl
