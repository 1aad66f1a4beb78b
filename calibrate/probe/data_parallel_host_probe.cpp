#include "calibrate/probe/data_parallel_host_probe.hpp"

#include <ATen/ATen.h>
#include <torch/cuda.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/on_device.hpp"
#include "calibrate/probe/small_step.hpp"
#include "runtime/comm/process_group.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/statistics.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr int kWarmup = 5;
constexpr int kMeasurements = 50;
constexpr int kSleeps = 20;
constexpr int kLayers = 8;

Sample host_sample(const char* name, std::vector<double> values, std::int64_t warmup) {
  Sample sample;
  sample.key.probe = Probe::host;
  sample.key.name = name;
  sample.key.implementation = "autograd";
  sample.unit = "us";
  sample.warmup = warmup;
  sample.values = std::move(values);
  return sample;
}

// ---- the Reducer

/// Host times of a backward of a small model.
double backward_us(SmallStep& step, c10::Device device) {
  step.clear();
  step.prepare();
  step.forward();
  synchronize(device);
  const double us = elapsed_us([&] { step.backward(); });
  synchronize(device);
  return us;
}

/// Host times of calls of allreduce, each after the one before has ended.
std::vector<double> issue_times(c10d::ProcessGroup& group, c10::Device device, std::int64_t numbers) {
  std::vector<at::Tensor> tensors = {at::zeros({numbers}, at::TensorOptions().device(device).dtype(at::kFloat))};
  std::vector<double> values;
  for (int i = 0; i < kWarmup + kMeasurements; ++i) {
    const std::int64_t begin = steady_now_ns();
    const auto work = group.allreduce(tensors);
    values.push_back(us_since(begin));
    work->wait();
    synchronize(device);
  }
  return values;
}

/// `ranks`: 1, or 0 for any number of more than one.
Sample issue_sample(const RuntimeOptions& runtime, std::vector<double> values, std::int64_t ranks) {
  Sample sample = host_sample("collective_issue", std::move(values), kWarmup);
  sample.key.transport = runtime.device == DeviceKind::cuda ? "nccl" : "gloo";
  sample.key.workers = ranks;
  return sample;
}

void probe_reducer(const RuntimeOptions& runtime, const Collect& collect) {
  const c10::Device device = device_of(runtime, 0);
  const OnDevice on_device(device);
  const auto group = make_process_group({c10::make_intrusive<c10d::HashStore>(), 0, 1, device, true}, {});
  {
    std::vector<double> issue = issue_times(*group, device, kLayers * (SmallStep::kDim + 1) * SmallStep::kDim);
    const double issue_us = median({issue.begin() + kWarmup, issue.end()});
    collect(issue_sample(runtime, std::move(issue), 1));
    SmallStep without(kLayers, device, runtime, Dtype::fp32, nullptr),
        with(kLayers, device, runtime, Dtype::fp32, group);
    std::vector<double> plain, reduced;
    for (int i = 0; i < kWarmup + kMeasurements; ++i) {
      plain.push_back(backward_us(without, device));
      reduced.push_back(backward_us(with, device));
    }
    const double plain_us = median({plain.begin() + kWarmup, plain.end()});
    std::vector<double> values;
    // On a busy host a pair may differ the other way: a difference is a time, at least one nanosecond.
    for (const double us : reduced) values.push_back(std::max((us - plain_us - issue_us) / (2 * kLayers), 1e-3));
    collect(host_sample("reducer_hook", std::move(values), kWarmup));
    std::vector<double> prepare;
    for (int i = 0; i < kWarmup + kMeasurements; ++i) {
      prepare.push_back(elapsed_us([&] { with.prepare(); }));
      backward_us(with, device);
    }
    collect(host_sample("reducer_prepare", std::move(prepare), kWarmup));
  }
  leave(*group, device.type());
}

// ---- a collective's call

/// Two ranks, a thread each: a group of one rank launches nothing.
void probe_issue(const RuntimeOptions& runtime, const Collect& collect) {
  constexpr std::int64_t kNumbers = 1 << 18;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<double> values[2];
  on_rank_threads(2, "all-reduces of 2 ranks", [&](int rank) {
    const c10::Device device = device_of(runtime, rank);
    const OnDevice on_device(device);
    const auto group = make_process_group({store, rank, 2, device, true}, {});
    values[rank] = issue_times(*group, device, kNumbers);
    leave(*group, device.type());
  });
  collect(issue_sample(runtime, std::move(values[0]), 0));
}

// ---- GradScaler, sleeps

std::vector<double> scaler_waits(c10::Device device) {
  const at::Tensor found_inf = at::zeros({}, at::TensorOptions().device(device).dtype(at::kFloat));
  std::vector<double> values;
#if PDL_CUDA
  if (device.is_cuda()) {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(true, device.index()));
    const c10::cuda::CUDAStream stream = guard.current_stream();
    at::cuda::CUDAEvent end_of_work{cudaEventDefault}, next{cudaEventDefault};
    for (int i = 0; i < kWarmup + kMeasurements; ++i) {
      hold_current_stream(200'000);  // the host waits in item() when the work ends
      end_of_work.record(stream);
      found_inf.item<double>();
      next.record(stream);
      stream.synchronize();
      values.push_back(std::max(static_cast<double>(end_of_work.elapsed_time(next)) * 1e3, 1e-3));
    }
    return values;
  }
#endif
  for (int i = 0; i < kWarmup + kMeasurements; ++i) {
    const std::int64_t begin = steady_now_ns();
    found_inf.item<double>();
    values.push_back(us_since(begin));
  }
  return values;
}

std::vector<double> sleep_overruns() {
  constexpr std::int64_t kSleepNs = 10'000'000;
  std::vector<double> values;
  for (int i = 0; i < 1 + kSleeps; ++i) {
    const std::int64_t begin = steady_now_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kSleepNs));
    values.push_back(us_since(begin + kSleepNs));
  }
  return values;
}

}  // namespace

void probe_data_parallel_host(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                              const Progress& progress) {
  progress(0, "host of data parallelism");
  const c10::Device device = device_of(runtime, 0);
  if (has_process_groups(device.type())) {
    probe_reducer(runtime, collect);
    if (options.gpus > 1) probe_issue(runtime, collect);
  }
  {
    const OnDevice on_device(device);
    collect(host_sample("scaler_wait", scaler_waits(device), kWarmup));
  }
  collect(host_sample("sleep_overrun", sleep_overruns(), 1));
}

}  // namespace pdl
