// Where a traced step goes, what its critical path is, and what it would take without a part of it.
//
//   stream 7    [forward    ][backward  ]......[backward ]....[optimizer]
//   stream 19                    [all-reduce   |     ]         | of two ranks: the other one starts here
//               | forward   | backward |imbalance|...
//
//   const TraceExplanation why = explain_trace({traced_step(read_kineto_trace("rank0.json"), std::nullopt)});
//   why.ranks[0].ns[...]           in the order of TraceCost: adds up to the rank's step, to the nanosecond
//   why.critical_path              from the first start to the last end of all ranks, without a gap
//   why.without[0]                 {"host", 5'412'000}
//
// The parts are those of trace_step.hpp, and finer:
//   contention   what a kernel of computation takes beyond the median of the kernels of its name and grid that ran
//                without NCCL beside them, where it ran beside a kernel of NCCL. Where fewer than two ran alone it is
//                not known and counts as computation.
//   imbalance    a collective runs and no computation, and the last of the ranks given has not started it
//   copies       also kernels that copy gradients into buckets of DistributedDataParallel
//   fill, drain  a message runs and no computation, before the first forward or backward kernel of the rank, or after
//                its last one; with what the message itself takes, as its kernel waits and copies in one
//
// The critical path goes back from the last end over what ended last of what an activity may have waited for:
//   known    the activity before it on its stream; the call that launched it; of a kernel of NCCL the computation
//            launched before it (ProcessGroupNCCL waits for the current stream); of a collective the start of the last
//            rank given; of an optimizer and of copies out of buckets the collectives that had ended
//            (DistributedDataParallel)
//   a guess  an activity that starts later than all these explain waited for the last to end on another stream
//   a guess  all threads of a host take turns, one call after the other; a call that waits for the GPU waits for what
//            last ended in it
// The step without a part is the same graph walked again, its other times as they were. A wait that the host's time has
// hidden is not in the graph: without the host the step may take longer than is said.
//
// Units: nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/run/trace_ranks.hpp"

namespace pdl {

enum class TraceCost : std::uint8_t {
  forward,
  backward,
  optimizer,
  contention,
  fill,
  drain,
  imbalance,
  transfers,
  collectives,
  copies,
  host,
  waiting
};
inline constexpr std::size_t kTraceCosts = 12;
inline constexpr const char* kTraceCostNames[kTraceCosts] = {"forward",     "backward", "optimizer", "contention",
                                                             "fill",        "drain",    "imbalance", "transfers",
                                                             "collectives", "copies",   "host",      "waiting"};

struct TraceCosts {
  std::array<std::int64_t, kTraceCosts> ns{};
  std::int64_t& operator[](TraceCost cost) { return ns[static_cast<std::size_t>(cost)]; }
  std::int64_t operator[](TraceCost cost) const { return ns[static_cast<std::size_t>(cost)]; }
  std::int64_t sum_ns() const;
};

/// Of the kernels of computation that ran beside NCCL: of how many it is known what they take alone.
struct KnownContention {
  std::int64_t known = 0, all = 0;
};

struct TracePathSegment {
  std::size_t rank = 0;  // of the files
  TraceCost part = TraceCost::forward;
  std::string name, last_name;            // of its first activity and its last; empty: host, waiting
  std::int64_t start_ns = 0, end_ns = 0;  // from the first start of all ranks
  std::int64_t activities = 0;            // 0: of the host, or waiting
};

struct TraceWithout {
  TraceCost part = TraceCost::host;
  std::int64_t step_ns = 0;
};

struct TraceExplanation {
  std::int64_t step_ns = 0;       // from the first start of all ranks to the last end
  std::vector<TraceCosts> ranks;  // by file
  std::vector<KnownContention> contention;
  bool peers_known = false;  // several ranks with collectives: imbalance is known
  bool clocks_guessed = false;
  std::vector<TracePathSegment> critical_path;  // gaps of up to 10 us on a stream are inside the segment before them
  TraceCosts path;                              // of its segments: adds up to step_ns
  std::vector<TraceWithout> without;            // only parts that the step has
};

/// Of at least one. Throws as trace_ranks().
TraceExplanation explain_trace(const std::vector<TracedStep>& steps);

/// By place in the step's activities: what each takes longer than its like alone. `known`: filled.
std::vector<std::int64_t> contention_of(const TracedStep& traced, KnownContention& known);

/// Adds step_ns, critical path and steps without to an explanation.
void walk_graph(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                const std::vector<std::vector<std::int64_t>>& contention, TraceExplanation& explanation);

}  // namespace pdl
