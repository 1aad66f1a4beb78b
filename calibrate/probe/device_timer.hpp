// Times work on one device in a busy stream: the device is held by a waiting kernel while the host issues everything,
// so that what is measured is the device alone, back to back, and what the host took to issue it is measured apart.
//
//   DeviceTimer timer(device);
//   Timed t = timer.time([&] { stage.forward(0); }, {.seconds = 0.06});    // about 60 ms of it
//
//   device   [ held ....... ][run][run][run][run]             device_ns: of each run, between events
//   host     issue issue issue issue                          issue_ns:  of each run
//
// Why: one isolated call is 2 to 7 % slower than the same call in a busy stream (clocks, caches, launch gaps). On CPU
// the host is the device: both times are those of the call. Units: nanoseconds. Not here: which kernels ran
// (kernel_trace.hpp).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pdl {

/// So long a card works at its full clock after as long a rest.
constexpr double kFullClockSeconds = 0.03;

/// How a work is repeated.
struct Series {
  double seconds = 0.06;  // of device time, about
  int kernels = 8;        // about how many launches one work makes; a stream's queue holds 1,024
  /// Before that, work that keeps the device busy goes on for as long, and the device is not held: a card at its power
  /// limit slows down only after a while, and recovers in any pause.
  double sustained_seconds = 0;
  /// The device is held for as long as it works, before each part of the series of at most kFullClockSeconds: it has
  /// its full clock, whatever was before. (An H200 keeps it for 40 ms of the heaviest load after 100 ms of none, and
  /// always if it rests half the time; 2026-11-29.)
  bool rested = false;
  int least_repetitions = 6;  // measured, after those that are dropped (Timed::warmup)
};

struct Timed {
  std::int64_t warmup = 0;        // leading values that are not measurements
  std::vector<double> device_ns;  // one a repetition
  std::vector<double> issue_ns;
  bool sustained = false;  // the device was kept busy before, as long as was asked for
};

class DeviceTimer {
 public:
  /// The current stream of `device` at each call is the one that is timed.
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  /// Repeats `work`. A short one is repeated inside one measurement until that takes 0.3 ms, and the time divided.
  Timed time(const std::function<void()>& work, const Series& series) const;

 private:
  Timed time_cuda(const std::function<void()>& work, const Series& series) const;
  Timed time_cpu(const std::function<void()>& work, const Series& series) const;
  c10::Device device_;
};

/// Keeps the current CUDA stream busy for about `ns` without using its multiprocessors.
void hold_current_stream(std::int64_t ns);

}  // namespace pdl
