// The steps in a trace of torch.profiler, and where one of them goes: parts that add up to it, to the nanosecond.
//
//   const std::vector<TraceStep> steps = steps_of(trace);       // {activities 0 to 87, "ProfilerStep#3" ...}
//   const TraceParts parts = parts_of(trace, steps[1]);
//
// A step: ProfilerStep#N where the program calls profiler.step(); else from one Optimizer.step to the end of the next
// one; else all that there is. Kernels of torch.distributed.barrier at its begin or end belong to none. It lasts from
// its first start on the GPU to its last end.
//
//   stream 7    [forward    ][backward  ]......[backward ]     [optimizer]
//   stream 19                    [all-reduce          ]
//               |  forward  | backward |exposed|  ...   |host | optimizer|
//
// At each moment one thing counts: a kernel of computation that runs, by what launched it (forward, backward,
// optimizer), the one that started last; else a kernel of NCCL (a collective or a message: exposed); else a copy or a
// fill; else nothing runs: until the launch of what comes next has returned it is the host's time, then waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/kineto_trace.hpp"

namespace pdl {

enum class TracePart : std::uint8_t {
  forward,
  backward,
  optimizer,
  collectives,  // exposed
  messages,     // exposed
  copies,       // copies and fills
  host,
  waiting
};
inline constexpr std::size_t kTraceParts = 8;
inline constexpr const char* kTracePartNames[kTraceParts] = {"forward",  "backward", "optimizer", "collectives",
                                                             "messages", "copies",   "host",      "waiting"};

/// By PyTorch's names of the calls: copies of DistributedDataParallel into a bucket and out of it; the forward of a
/// loss.
enum class ActivityRole : std::uint8_t { none, bucket_copy_in, bucket_copy_out, loss };

struct TraceStep {
  std::string name;                     // "ProfilerStep#3", "step 2"
  std::vector<std::size_t> activities;  // by start
  std::vector<TracePart> parts;  // of each: what it is for, by its name and by what the host was at when it launched
  std::vector<TracePart> launched_in;  // of each: forward, backward or optimizer, also of copies and NCCL
  std::vector<ActivityRole> roles;     // of each
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

/// A file and the step of it that is shown.
struct TracedStep {
  KinetoTrace trace;
  std::vector<TraceStep> steps;
  std::size_t shown = 0;

  const TraceStep& step() const { return steps[shown]; }
  /// `place`: of the file among those of its training, for a trace that does not say its rank.
  int rank(std::size_t place) const { return trace.rank >= 0 ? trace.rank : static_cast<int>(place); }
  const GpuActivity& activity(std::size_t place) const { return trace.activities[step().activities[place]]; }
};

/// `wanted`: N of the step "ProfilerStep#N" or "step N"; default the last. Throws InputError where there is no such
/// step.
TracedStep traced_step(KinetoTrace trace, std::optional<std::int64_t> wanted);

/// Throws InputError where two files are not ranks of one training: world size, NCCL, step, a rank twice.
void check_are_of_one_training(const std::vector<TracedStep>& steps);

/// In the order of time; at least one. Throws InputError if none has anything on the GPU.
std::vector<TraceStep> steps_of(const KinetoTrace& trace);

/// Activities of none of its steps: of barriers, or launched before the first step, after the last or between two.
std::vector<std::size_t> outside_of_steps(const KinetoTrace& trace, const std::vector<TraceStep>& steps);

/// It has calls of autograd, by which kernels of a backward are known.
bool names_backwards(const KinetoTrace& trace);

/// A stretch of the step in which the same thing counts.
struct TraceStretch {
  std::int64_t start_ns = 0, end_ns = 0;
  std::optional<std::size_t> running;  // place in TraceStep::activities of what counts; nothing: nothing runs
  std::size_t next = 0;                // activity that ends a stretch in which nothing runs
  std::int64_t host_ns = 0;            // of such a stretch: until the call that launched `next` has returned
};

/// From the start of the step to its end, without a gap.
std::vector<TraceStretch> stretches_of(const KinetoTrace& trace, const TraceStep& step);

/// In the order of TracePart; the sum is the step's duration.
std::vector<std::int64_t> parts_of(const KinetoTrace& trace, const TraceStep& step);

/// Where nothing ran on the GPU for longest: from, how long, how much of it the host had not launched what came next.
struct TraceGap {
  std::int64_t start_ns = 0, duration_ns = 0, host_ns = 0;
  std::size_t next = 0;  // activity
};
std::vector<TraceGap> largest_gaps(const KinetoTrace& trace, const TraceStep& step, std::size_t most);

}  // namespace pdl
