// Probes of the host and of what the libraries keep: costs that belong to no layer and no transfer.
//
//   host    launch_latency   from a launch by the host to the start of the kernel on an idle stream
//           wait_issue       one cudaStreamWaitEvent
//           step_overhead    a step without any task: threads start, devices are waited for, threads meet; and the host
//                            learning that the last kernel has ended
//   memory  workspace        bytes that the libraries took from LibTorch's allocator beside our tensors
//           workspace_split  the same where every backward is split: nothing runs on a second stream
//
// Units: microseconds and bytes in the samples.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_host(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                const Progress& progress);

}  // namespace pdl
