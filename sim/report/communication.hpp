// How much of the communication of a step is hidden behind computation.
//
//   GPU 0  compute     F0 B0 B0 B0 .. ..       collectives run 4 ms, of which 2 beside the backward: 2 exposed,
//          collective  .. .. CC CC CC CC       half of it is hidden
//
// A send, receive or collective that waits for another GPU does not run yet (sim/report/metrics.hpp).
#pragma once

#include <cstdint>

#include "sim/report/metrics.hpp"
#include "sim/report/run_result.hpp"

namespace pdl {

struct CommunicationTime {
  std::int64_t running_ns = 0;  // a transfer or collective of the GPU runs, whatever runs beside it
  std::int64_t exposed_ns = 0;  // and no compute task of it does: GpuMetrics::comm_ns
  std::int64_t backward_ns = 0;  // a backward of the GPU runs: what DDP hides communication behind
};

/// Of the GPU whose communication is exposed longest.
CommunicationTime communication_time(const RunResult& run, const RunMetrics& metrics);

/// Exposed communication as a share of the step, averaged over the GPUs.
double exposed_communication_fraction(const RunMetrics& metrics);

}  // namespace pdl
