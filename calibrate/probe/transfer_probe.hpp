// Probes of transfers: every pair of workers and direction, 1 KiB to 256 MiB.
//
//   probe_transfers(options, runtime, collect, progress);      // samples "transfer", "host" transfer_issue
//
// What is timed is what a pipeline pays between two tasks of different GPUs, event latencies included:
//
//   from, compute   [..]─event┐                                ┌─event─[..]
//   from, send                └─[ copy or NCCL send ]─event┐   │                one round trip: hop + return
//   to,   compute                                          └[..]┘
//
// A chain of round trips is issued while the first stream is held, so that the host is not in the measurement. The
// return, an event without data, is timed by a chain of its own and subtracted. Units: microseconds in the samples.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_transfers(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                     const Progress& progress);

}  // namespace pdl
