// Probe of what a host takes longer for the first forward, backward or optimizer after it did something else: its code has
// left the caches, autograd's thread has gone to sleep.
//
//   forward    after_sleep   11 ms   +313 us      the host slept 10 ms, then issued a forward; 11 ms after the one before
//   backward   after_sleep   11 ms   +418 us      the same with a backward
//   optimizer  later         11 ms    +33 us      an optimizer, issued 11 ms after the one before; a backward came just before
//   forward    after_wait                         the host waited for the GPU, then issued a forward
//
// (The numbers: a CPU worker, medians.)
//
// A value is the time of one call until the device has done it, for a model that is so small that its host decides (8
// layers of width 64, 8 samples), less the median of the same call again and again. What c10d's Reducer does in a step,
// prepare_for_forward and prepare_for_backward, is in it; its hooks are not: they have a probe of their own
// (data_parallel_host_probe.hpp). The size of a sample is the wait or sleep and the time that the rest of the step takes:
// as long ago the host issued the same before. The first size is a step without a wait.
//
// Units: microseconds in the samples; pauses are nanoseconds. Not here: what a GPU itself does after idling apart from the
// host, hosts with two or more GPUs.
#pragma once

#include "calibrate/probe/layer_probe.hpp"

namespace pdl {

void probe_pauses(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect, const Progress& progress);

}  // namespace pdl
