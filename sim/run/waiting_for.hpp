// What held each task of a step back: the task that it began after.
//
//   GPU 0  compute  F0 F1 .. .. B0 B1      F1 of GPU 0 waited for F0 of GPU 0: its stream was occupied
//          send     .. s0 s1               s0 waited for F0
//   GPU 1  compute  .. .. F0 F1 B0 ..      F0 of GPU 1 waited for s0, which brings its input
//
//   waited_for(run)[5]     2, -1: index into run.timeline.spans
//
// A timeline does not say what depends on what; its plan does, which follows from the run's spec. So the same question
// is answered for predicted and measured steps. Of what a task had to wait for, the last to end counts: the tasks that
// it depends on, the task before it on its stream, a sleep of its host just before it (--delay-ms, --straggler); at the
// same time the one on its stream. A send, receive or collective that was ready before the others of its group waited
// for the one that was ready last, whose own reason is what held all of them back.
//
// Not here: what else a host did, thread blocks that wait for a multiprocessor (that is inside the task's span).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

/// By span: the index of the span that was the last to end of those that it had to wait for (of its group: that was
/// ready last), however long before; -1: there is none. Empty where the plan of the run's spec has other tasks than the
/// timeline, as in runs of older programs.
std::vector<std::int32_t> last_before(const RunResult& run);

/// The same, but -1 too where the span began later than that: then it waited for its host to issue it. In a measured run
/// what follows within kMeasuredStartNs counts as at once: events and launches take some microseconds, and so may the
/// clocks of two GPUs differ.
inline constexpr std::int64_t kMeasuredStartNs = 20'000;
std::vector<std::int32_t> waited_for(const RunResult& run);

}  // namespace pdl
