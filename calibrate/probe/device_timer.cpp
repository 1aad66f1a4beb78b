#include "calibrate/probe/device_timer.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/comm/waiting.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#endif

namespace pdl {
namespace {

constexpr int kWarmup = 2;
constexpr int kMostRepetitions = 40;
constexpr double kShortestMeasurementNs = 300e3;
constexpr int kLaunchesQueued = 800;
constexpr int kLaunchesAhead = 150;
constexpr double kBusy = 1.5;  // times as long as its issue

int repetitions_for(double seconds, double once_ns, int at_least, int at_most) {
  const double wanted = std::ceil(seconds * 1e9 / std::max(once_ns, 1.0));
  return static_cast<int>(std::clamp<double>(wanted, at_least, at_most));
}

}  // namespace

Timed DeviceTimer::time(const std::function<void()>& work, const Series& series) const {
  return device_.is_cuda() ? time_cuda(work, series) : time_cpu(work, series);
}

Timed DeviceTimer::time_cpu(const std::function<void()>& work, const Series& series) const {
  const std::int64_t begin = steady_now_ns();
  work();
  const double once_ns = static_cast<double>(steady_now_ns() - begin);
  const int inner = static_cast<int>(std::clamp(kShortestMeasurementNs / std::max(once_ns, 1.0), 1.0, 64.0));
  const int repetitions = repetitions_for(series.seconds, once_ns * inner, series.least_repetitions, 60);
  Timed timed;
  timed.warmup = kWarmup;
  for (int i = 0; i < kWarmup + repetitions; ++i) {
    Waiting::renew();
    const std::int64_t start = steady_now_ns();
    for (int j = 0; j < inner; ++j) work();
    const double ns = static_cast<double>(steady_now_ns() - start) / inner;
    timed.device_ns.push_back(ns);
    timed.issue_ns.push_back(ns);
  }
  return timed;
}

#if PDL_CUDA

void hold_current_stream(std::int64_t ns) {
  // A spinning thread at up to 1.98 GHz: twice the cycles, so that a lower clock holds no shorter.
  at::cuda::sleep(2 * ns);
}

namespace {

/// The host stays at most `ahead` calls ahead: a full queue would make it wait, and that would look like time of issue.
void keep_busy(const c10::cuda::CUDAStream& stream, const std::function<void()>& work, double seconds, int ahead) {
  std::vector<at::cuda::CUDAEvent> done;
  for (int i = 0; i < ahead; ++i) done.emplace_back(cudaEventDisableTiming);
  const std::int64_t end_ns = steady_now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  for (std::size_t i = 0; steady_now_ns() < end_ns; i = (i + 1) % done.size()) {
    done[i].synchronize();  // at once for an event that was never recorded
    work();
    done[i].record(stream);
  }
}

}  // namespace

Timed DeviceTimer::time_cuda(const std::function<void()>& work, const Series& series) const {
  const c10::cuda::CUDAStream stream = at::cuda::getCurrentCUDAStream(device_.index());
  const auto run_once = [&] {
    const std::int64_t begin = steady_now_ns();
    work();
    const std::int64_t issued = steady_now_ns();
    stream.synchronize();
    return std::pair{static_cast<double>(issued - begin), static_cast<double>(steady_now_ns() - begin)};
  };
  run_once();  // first launches load their kernels and take workspaces
  const auto [issue_ns, once_ns] = run_once();
  const int inner = static_cast<int>(std::clamp(kShortestMeasurementNs / once_ns, 1.0, 8.0));
  const int at_most = std::min(
      kMostRepetitions, std::max(series.least_repetitions + kWarmup, kLaunchesQueued / (series.kernels * inner)));
  const int repetitions = kWarmup + repetitions_for(series.seconds, once_ns * inner, series.least_repetitions, at_most);

  // The host gets ahead of a device that is busy for longer than the host issues: no need to hold it.
  Timed timed;
  timed.sustained = series.sustained_seconds > 0 && kBusy * issue_ns < once_ns;
  if (timed.sustained) keep_busy(stream, work, series.sustained_seconds, std::max(kLaunchesAhead / series.kernels, 2));
  int at_once = repetitions;
  if (series.rested) at_once = repetitions_for(kFullClockSeconds, once_ns * inner, 1, repetitions);
  timed.warmup = std::min(kWarmup, at_once);
  while (std::ssize(timed.device_ns) < repetitions) {
    const int count = std::min(at_once, repetitions - static_cast<int>(timed.device_ns.size()));
    const double works = static_cast<double>(count) * inner;
    if (!timed.sustained)
      hold_current_stream(
          std::llround(std::max(1.5 * issue_ns * works + 200e3, series.rested ? once_ns * works : 0.0)));
    std::vector<at::cuda::CUDAEvent> events;
    for (int i = 0; i <= count; ++i) events.emplace_back(cudaEventDefault);
    events[0].record(stream);
    for (int i = 0; i < count; ++i) {
      const std::int64_t begin = steady_now_ns();
      for (int j = 0; j < inner; ++j) work();
      timed.issue_ns.push_back(static_cast<double>(steady_now_ns() - begin) / inner);
      events[static_cast<std::size_t>(i) + 1].record(stream);
    }
    stream.synchronize();
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      timed.device_ns.push_back(static_cast<double>(events[at].elapsed_time(events[at + 1])) * 1e6 / inner);
    }
  }
  return timed;
}

#else

void hold_current_stream(std::int64_t) {
  throw CannotRun("this program was built without CUDA");
}

Timed DeviceTimer::time_cuda(const std::function<void()>&, const Series&) const {
  throw CannotRun("this program was built without CUDA");
}

#endif

}  // namespace pdl
