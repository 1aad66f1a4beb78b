// Probe of what the host takes to issue a forward, a backward or an optimizer after it did something else: its code has
// left the caches, autograd's thread has gone to sleep.
//
//   forward    again         -         the same call again and again, as the probes of layers have it
//   forward    after_sleep   10 ms     the host slept just before; it issued the forward before this one 10 ms ago
//   backward   after_wait    3 ms      it waited for the GPU just before
//   optimizer  later         3 ms      it paused before something else of the same step
//
// Values are the times of the call alone; the device is waited for afterwards, untimed. The size of a sample is the
// time since the end of the same call before: what was paused, and the rest of the step (of `again` 1 ns: it says
// nothing). The first `later` is a step without a pause. The step is that of a model so small that the host decides (2
// layers of width 64, 8 samples), so that a call is mostly what comes before the first kernels; without c10d's Reducer,
// which has probes of its own (data_parallel_host_probe.hpp). `again` is measured anew before each pause: hosts drift.
//
// Units: microseconds in the samples; sizes are nanoseconds, to two digits. Not here: what a GPU does after idling,
// hosts of several GPUs.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_pauses(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                  const Progress& progress);

}  // namespace pdl
