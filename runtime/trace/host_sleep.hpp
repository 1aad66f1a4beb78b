// A sleep of the host: --delay-ms, --straggler.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/trace/span_recorder.hpp"

namespace pdl {

/// `recorder` (or null) gets the host's own times of it.
inline void sleep_host(std::int64_t ns, TaskId task, SpanRecorder* recorder) {
  const std::int64_t begin_ns = steady_now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
  if (recorder) recorder->record_host(task, begin_ns, steady_now_ns());
}

}  // namespace pdl
