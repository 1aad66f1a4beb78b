#include "runtime/trace/span_recorder.hpp"

#include <chrono>
#include <cmath>
#include <utility>

#include "sim/io/error.hpp"

#if PDL_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#endif

namespace pdl {

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if PDL_CUDA

namespace {

constexpr int kAnchorTries = 20;

/// One moment, on a device's clock of events and on the host's.
struct Anchor {
  cudaEvent_t event = nullptr;
  std::int64_t host_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

struct TaskEvents {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  bool recorded = false;
};

cudaEvent_t create_timing_event() {
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

/// The device is current and idle: the event happens between the two looks at the host's clock.
void take_anchor(Anchor& anchor, cudaEvent_t& spare, cudaStream_t stream) {
  anchor.uncertainty_ns = -1;
  for (int i = 0; i < kAnchorTries; ++i) {
    const std::int64_t before = steady_now_ns();
    C10_CUDA_CHECK(cudaEventRecord(spare, stream));
    C10_CUDA_CHECK(cudaEventSynchronize(spare));
    const std::int64_t half = (steady_now_ns() - before) / 2;
    if (anchor.uncertainty_ns >= 0 && half >= anchor.uncertainty_ns) continue;
    anchor.uncertainty_ns = half;
    anchor.host_ns = before + half;
    std::swap(anchor.event, spare);
  }
}

}  // namespace

struct SpanRecorder::Clocks {
  struct Device {
    int index = 0;
    Anchor anchor;
    cudaEvent_t spare = nullptr;
    cudaStream_t stream = nullptr;  // carries the anchors
  };
  std::vector<Device> devices;       // by worker; index -1: of another process
  std::vector<std::int32_t> worker;  // by task
  std::vector<TaskEvents> events;    // by task

  Clocks(const TaskGraph& graph, const RuntimeOptions& options) {
    for (std::uint32_t w = 0; w < graph.workers; ++w) {
      Device device;
      device.index = options.is_local(static_cast<int>(w)) ? options.device_index(static_cast<int>(w)) : -1;
      if (device.index >= 0) {
        const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device.index));
        device.anchor.event = create_timing_event();
        device.spare = create_timing_event();
        device.stream = c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(device.index)).stream();
      }
      devices.push_back(device);
    }
    for (const Task& task : graph.tasks) {
      TaskEvents pair;
      if (const int index = devices[task.worker].index; index >= 0) {
        const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
        pair = {create_timing_event(), create_timing_event(), false};
      }
      events.push_back(pair);
      worker.push_back(task.worker);
    }
  }

  // A destructor must not throw: an error here means that the device has failed, which has been reported before.
  ~Clocks() {
    for (const TaskEvents& pair : events) {
      if (pair.begin) static_cast<void>(cudaEventDestroy(pair.begin));
      if (pair.end) static_cast<void>(cudaEventDestroy(pair.end));
    }
    for (const Device& device : devices) {
      if (device.spare) static_cast<void>(cudaEventDestroy(device.spare));
      if (device.anchor.event) static_cast<void>(cudaEventDestroy(device.anchor.event));
    }
  }

  cudaStream_t current_stream(TaskId task) const {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(devices[worker[task]].index)).stream();
  }

  void record(TaskId task, cudaEvent_t event, cudaStream_t stream) {
    const c10::cuda::OptionalCUDAGuard guard(
        c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(devices[worker[task]].index)));
    C10_CUDA_CHECK(cudaEventRecord(event, stream));
  }

  void anchor_all() {
    for (Device& device : devices) {
      if (device.index < 0) continue;
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device.index));
      take_anchor(device.anchor, device.spare, device.stream);
    }
    for (TaskEvents& pair : events) pair.recorded = false;
  }

  std::int64_t host_time_ns(const Device& device, cudaEvent_t event) const {
    float after_anchor_ms = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&after_anchor_ms, device.anchor.event, event));
    return device.anchor.host_ns + std::llround(static_cast<double>(after_anchor_ms) * 1e6);
  }

  void read(RecordedStep& step) const {
    for (std::size_t t = 0; t < events.size(); ++t) {
      const Device& device = devices[worker[t]];
      if (!events[t].recorded) continue;
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device.index));
      step.times[t] = {host_time_ns(device, events[t].begin), host_time_ns(device, events[t].end)};
    }
    for (const Device& device : devices) {
      if (device.index < 0) continue;
      step.clock_uncertainty_us =
          std::max(step.clock_uncertainty_us, static_cast<double>(device.anchor.uncertainty_ns) * 1e-3);
    }
  }
};

#else

struct SpanRecorder::Clocks {};

#endif

SpanRecorder::SpanRecorder(const TaskGraph& graph, const RuntimeOptions& options) {
  recorded_.times.resize(graph.tasks.size());
  if (options.device == DeviceKind::cpu) return;
#if PDL_CUDA
  clocks_ = std::make_unique<Clocks>(graph, options);
#else
  throw CannotRun("this program was built without CUDA");
#endif
}

SpanRecorder::~SpanRecorder() = default;

void SpanRecorder::begin_step() {
  std::fill(recorded_.times.begin(), recorded_.times.end(), TaskTimes{});
  recorded_.clock_uncertainty_us = 0;
#if PDL_CUDA
  if (clocks_) clocks_->anchor_all();
#endif
}

void SpanRecorder::begin(TaskId task) {
#if PDL_CUDA
  if (clocks_) return clocks_->record(task, clocks_->events[task].begin, clocks_->current_stream(task));
#endif
  recorded_.times[task].start_ns = steady_now_ns();
}

void SpanRecorder::end(TaskId task) {
#if PDL_CUDA
  if (clocks_) {
    clocks_->events[task].recorded = true;
    return clocks_->record(task, clocks_->events[task].end, clocks_->current_stream(task));
  }
#endif
  recorded_.times[task].end_ns = steady_now_ns();
}

void SpanRecorder::begin(TaskId task, [[maybe_unused]] CUstream_st* stream) {
#if PDL_CUDA
  if (clocks_) return clocks_->record(task, clocks_->events[task].begin, stream);
#endif
  begin(task);
}

void SpanRecorder::end(TaskId task, [[maybe_unused]] CUstream_st* stream) {
#if PDL_CUDA
  if (clocks_) {
    clocks_->events[task].recorded = true;
    return clocks_->record(task, clocks_->events[task].end, stream);
  }
#endif
  end(task);
}

void SpanRecorder::record_host(TaskId task, std::int64_t start_ns, std::int64_t end_ns) {
  recorded_.times[task] = {start_ns, end_ns};
}

void SpanRecorder::end_step() {
#if PDL_CUDA
  if (clocks_) clocks_->read(recorded_);
#endif
}

}  // namespace pdl
