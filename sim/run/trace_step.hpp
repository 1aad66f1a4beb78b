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

struct TraceStep {
  std::string name;                     // "ProfilerStep#3", "step 2"
  std::vector<std::size_t> activities;  // by start
  std::vector<TracePart> parts;  // of each: what it is for, by its name and by what the host was at when it launched
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

/// In the order of time; at least one. Throws InputError if none has anything on the GPU.
std::vector<TraceStep> steps_of(const KinetoTrace& trace);

/// Activities of none of its steps: of barriers, or launched before the first step, after the last or between two.
std::vector<std::size_t> outside_of_steps(const KinetoTrace& trace, const std::vector<TraceStep>& steps);

/// It has calls of autograd, by which kernels of a backward are known.
bool names_backwards(const KinetoTrace& trace);

/// In the order of TracePart; the sum is the step's duration.
std::vector<std::int64_t> parts_of(const KinetoTrace& trace, const TraceStep& step);

/// Where nothing ran on the GPU for longest: from, how long, how much of it the host had not launched what came next.
struct TraceGap {
  std::int64_t start_ns = 0, duration_ns = 0, host_ns = 0;
  std::size_t next = 0;  // activity
};
std::vector<TraceGap> largest_gaps(const KinetoTrace& trace, const TraceStep& step, std::size_t most);

}  // namespace pdl
