// Traces of several ranks of one training: which kernels of NCCL are one collective, and one clock for all.
//
//   rank 0   [all-reduce ========]        starts first, waits for rank 1: 3 us
//   rank 1      [all-reduce =====]
//
//   const TraceRanks ranks = trace_ranks(steps);
//   ranks.collectives[0].places          {4, 3}: of each rank, the place in its step's activities
//   last_start_ns(steps, ranks, collective)
//
// The n-th kernel of an operation and process group is the same collective on every rank of the group. Times of files
// are on the clock that torch.profiler says; where a collective would then have ended on one rank before it began on
// another, the clocks differ, and those of a rank are moved so that its collectives end when those of the first rank
// do, in the median: a guess, which is said.
//
// Units: nanoseconds. Not here: messages (a trace does not say who the peer is), collectives of which some ranks
// do not wait for all others (a broadcast is taken as if its root waited).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/run/trace_step.hpp"

namespace pdl {

struct TracedCollective {
  std::vector<std::optional<std::size_t>> places;  // by file, in its step's activities; nothing: not of its group
};

struct TraceRanks {
  std::vector<std::int64_t> shift_ns;         // by file: what is added to its times to be on the clock of the first
  std::vector<TracedCollective> collectives;  // those of which several ranks are given
  bool clocks_guessed = false;
};

/// Throws InputError where ranks of a process group have run another number of a collective, or have given it another
/// number of bytes: they are not of one step.
TraceRanks trace_ranks(const std::vector<TracedStep>& steps);

/// When the last rank of those given has started it, on the clock of the first file.
std::int64_t last_start_ns(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                           const TracedCollective& collective);

}  // namespace pdl
