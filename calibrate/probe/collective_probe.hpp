// Probes of collectives: all_reduce, broadcast, reduce, all_gather, reduce_scatter, by 2, 3, ... GPUs, 1 KiB to 1 GiB.
//
//   probe_collectives(options, runtime, collect, progress);      // samples "collective"
//
//   GPU 0   [ held ..... ][all_reduce][all_reduce][all_reduce]|       a measurement is the mean of several between
//   GPU 1   [ held ....... ][all_reduce][all_reduce][all_reduce]|     events, back to back; the longest GPU counts
//
// On CUDA NCCL by ncclCommInitAll: the rings, trees and protocols that NCCL chooses by itself, as under PyTorch, and
// whatever its environment variables say (NCCL_NVLS_ENABLE, ...). Each sample has its kernel with the thread blocks, of
// which NCCL launches one a channel and which is how many multiprocessors it takes. The kernel's time is the median of
// the values: as traced it includes the wait for the kernels of the other GPUs.
// On CPU all_reduce is Gloo's, a thread a rank (transport gloo); broadcast and reduce are what DataParallel does there
// with the memory of all workers: a clone for each of the others; a sum of all (transport copy).
// Bytes as nccl-tests counts them: of the whole buffer, the larger of what a rank gives and what it gets; for
// all_gather and reduce_scatter that of all ranks' parts together, and rounded down to whole parts of 16 bytes.
// Everything in place, fp32. Units: microseconds in the samples.
#pragma once

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_part.hpp"
#include "runtime/device/runtime_options.hpp"

namespace pdl {

void probe_collectives(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                       const Progress& progress);

}  // namespace pdl
