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
// it depends on, the task before it on its stream, a sleep of its host just before it (--delay-ms, --straggler), on the
// CPU whatever its host did just before it, as the host computes there; at the same time the one on its stream. A send,
// receive or collective that was ready before the others of its group waited for the one that was ready last, whose own
// reason is what held all of them back; those that were ready together waited for the last to end of what any of them
// had to wait for.
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

/// The same as if no host had slept: what a task after a sleep had to wait for beside it.
std::vector<std::int32_t> last_before_without_sleeps(const RunResult& run);

/// Within how much time two moments of a run count as one: 0 in a prediction, 20 us in a measured run, where events and
/// launches take some microseconds, and the clocks of two GPUs may differ as much.
std::int64_t at_once_ns(const RunResult& run);

/// The same, but -1 too where the span did not begin at once after that: then it waited for its host to issue it.
std::vector<std::int32_t> waited_for(const RunResult& run);

}  // namespace pdl
