// Probes of compute under communication and communication under compute, on the same GPUs at the same time.
//
//   probe_overlap(options, runtime, collect, progress);      // samples "overlap"
//
//   GPU, compute     [layer][layer][layer][layer]     name compute: of a layer while all-reduces run
//   GPU, collective  [all_reduce][all_reduce]         name communication: of an all-reduce while layers run
//
// Collectives are all-reduces of a group, and messages from the first GPU to the second (operation send_receive).
// Copies in place of layers say how much a kernel that does nothing but move memory slows an all-reduce
// (sim/cost/price.cpp). The layers are not used by predictions, which reckon with multiprocessors
// (sim/engine/multiprocessors.hpp): what they are held against.
// A layer is its forward matrix product without autograd. On GPUs only. Units: microseconds in the samples.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_overlap(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                   const Progress& progress);

}  // namespace pdl
