// How much of the communication of a step is hidden behind computation.
//
//   GPU 0  compute     F0 B0 B0 B0 .. ..       collectives run 4 ms, of which 2 beside the backward: 2 exposed,
//          collective  .. .. CC CC CC CC       half of it is hidden
//
// A task of computation counts from its first kernel to its last: of a step that the host bounds, waits for the host
// are inside, and what is hidden behind such a task says nothing about computation.
//
// A send, receive or collective that waits for another GPU does not run yet (sim/run/metrics.hpp). GPUs differ, most of
// all in what was measured; every number here is their average, so that tables and sentences say the same.
#pragma once

#include <cstdint>

#include "sim/run/metrics.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct CommunicationTime {
  std::int64_t running_ns = 0;   // a transfer or collective of a GPU runs, whatever runs beside it
  std::int64_t exposed_ns = 0;   // and no compute task of it does: GpuMetrics::comm_ns
  std::int64_t backward_ns = 0;  // a GPU is at a backward: what DDP hides communication behind
};

/// Averaged over the GPUs.
CommunicationTime communication_time(const RunResult& run, const RunMetrics& metrics);

/// CommunicationTime::exposed_ns as a share of the step: the one number for it in tables, answers and JSON.
double exposed_communication_fraction(const RunMetrics& metrics);

/// How many transfers of the step, and how many bytes, belong to forward passes.
struct ForwardTransfers {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
ForwardTransfers forward_transfers(const RunResult& run);

}  // namespace pdl
