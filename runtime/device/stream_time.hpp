// How long something takes on the current stream of this thread: for choosing between two ways of doing it.
//
//   if (stream_time_ms(one_way) < stream_time_ms(another)) ...
//
// Not a measurement for a report (calibrate/probe has those). Units: milliseconds.
#pragma once

#include <functional>

namespace pdl {

/// The least of three pairs of calls after one more, in milliseconds a call, between CUDA events. Waits for the stream.
/// Throws CannotRun in a build without CUDA.
double stream_time_ms(const std::function<void()>& call);

}  // namespace pdl
