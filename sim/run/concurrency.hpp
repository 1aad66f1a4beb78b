// How many GPUs compute at the same time: what tells a pipeline from a relay.
//
//   GPU 0  F0 .. .. B0        at most 1 at once, 1.0 on average over a step of 4: a relay
//   GPU 1  .. F0 B0 ..
#pragma once

#include <cstdint>

#include "sim/run/run_result.hpp"

namespace pdl {

struct Concurrency {
  std::int64_t most = 0;         // GPUs that compute at once for longer than 0.1 % of the step
  double average = 0;            // GPUs that compute, averaged over the step
  std::int64_t all_busy_ns = 0;  // time in which every GPU of the run computes
};

/// Of forward and backward tasks; the optimizer does not count, because it comes last on every GPU.
Concurrency concurrency(const RunResult& run);

/// When GPUs begin and end their forward and backward work, whichever stages they hold.
struct FillAndDrain {
  std::int64_t fill_ns = 0;   // from the start of the step until every GPU has begun
  std::int64_t drain_ns = 0;  // from when the first GPU has done all its work until the last one has
};
FillAndDrain fill_and_drain(const RunResult& run);

}  // namespace pdl
