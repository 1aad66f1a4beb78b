#include "calibrate/probe/host_probe.hpp"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include "calibrate/probe/on_device.hpp"
#include "runtime/program/autograd_program.hpp"
#include "runtime/program/pipeline_program.hpp"
#include "sim/memory/memory.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr int kWarmup = 5;
constexpr int kMeasurements = 50;

Sample host_sample(const char* name, std::vector<double> values) {
  Sample sample;
  sample.key.probe = Probe::host;
  sample.key.name = name;
  sample.unit = "us";
  sample.warmup = kWarmup;
  sample.values = std::move(values);
  return sample;
}

std::vector<double> repeat(const std::function<double()>& measure_us) {
  std::vector<double> values;
  for (int i = 0; i < kWarmup + kMeasurements; ++i) values.push_back(measure_us());
  return values;
}

/// A step of as many workers without any task.
std::vector<double> empty_steps(int workers, const RuntimeOptions& runtime) {
  const std::string count = std::to_string(workers);
  const std::vector<SettingValue> settings = {{"gpus", count, "gpus"},
                                              {"depth", count, "depth"},
                                              {"dim", "64", "dim"},
                                              {"batch", "8", "batch"},
                                              {"microbatches", "1", "microbatches"},
                                              {"schedule", "gpipe", "schedule"}};
  Plan plan = make_plan(parse_run_spec(settings));
  plan.graph = TaskGraphBuilder().build(static_cast<std::uint32_t>(workers), static_cast<std::uint32_t>(workers));
  const std::unique_ptr<StepProgram> program = make_pipeline_program(plan, runtime);
  return repeat([&] { return elapsed_us([&] { program->step(nullptr); }); });
}

/// The one-thread programs end a step by waiting for each device in turn.
std::vector<double> wait_for_devices(int workers, const RuntimeOptions& runtime) {
  return repeat([&] {
    return elapsed_us([&] {
      for (int worker = 0; worker < workers; ++worker) {
        if (runtime.device == DeviceKind::cuda) torch::cuda::synchronize(runtime.device_index(worker));
      }
    });
  });
}

void probe_steps(int most_workers, const RuntimeOptions& runtime, double answer_us, const Collect& collect) {
  for (int workers = 1; workers <= most_workers; ++workers) {
    for (const char* implementation : {"pipeline", "autograd"}) {
      const bool pipeline = std::string(implementation) == "pipeline";
      std::vector<double> values = pipeline ? empty_steps(workers, runtime) : wait_for_devices(workers, runtime);
      for (double& value : values) value += answer_us;
      Sample sample = host_sample("step_overhead", std::move(values));
      sample.key.implementation = implementation;
      sample.key.workers = workers;
      collect(std::move(sample));
    }
  }
}

#if PDL_CUDA

/// One kernel on an idle stream: the way there and the way back are taken to be equal.
double probe_launches(const RuntimeOptions& runtime, const std::vector<std::string>& transports,
                      const Collect& collect) {
  const c10::cuda::CUDAStreamGuard guard(
      c10::cuda::getStreamFromPool(true, static_cast<c10::DeviceIndex>(runtime.device_index(0))));
  const c10::cuda::CUDAStream stream = guard.current_stream();
  at::Tensor number = at::zeros({1}, at::TensorOptions().device(stream.device()));
  std::vector<double> one_way_us = repeat([&] {
    stream.synchronize();
    number.zero_();
    return elapsed_us([&] { stream.synchronize(); }) / 2;
  });
  const double answer_us = *std::min_element(one_way_us.begin() + kWarmup, one_way_us.end());
  collect(host_sample("launch_latency", std::move(one_way_us)));
  at::cuda::CUDAEvent event{cudaEventDisableTiming};
  event.record(stream);
  const std::vector<double> wait_us = repeat([&] { return elapsed_us([&] { event.block(stream); }); });
  for (const std::string& transport : transports) {
    Sample sample = host_sample("wait_issue", wait_us);
    sample.key.transport = transport;
    collect(std::move(sample));
  }
  return answer_us;
}

/// What a training of a small model takes at its peak beside the tensors that are counted (sim/memory/memory.hpp).
void probe_workspaces(const RuntimeOptions& runtime, const Collect& collect) {
  using namespace c10::CachingAllocator;
  const auto device = static_cast<c10::DeviceIndex>(runtime.device_index(0));
  const auto allocated = [&] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(device)
        .allocated_bytes[static_cast<std::size_t>(StatType::AGGREGATE)];
  };
  struct Measured {
    const char* name;
    const char* workers;
    const char* schedule;
  };
  for (const Measured& kind : {Measured{"workspace", "thread", "gpipe"},
                               {"workspace_split", "thread", "zb-h1"},
                               {"workspace", "one", "gpipe"}}) {
    const std::vector<SettingValue> settings = {{"depth", "4", "depth"},
                                                {"dim", "512", "dim"},
                                                {"batch", "512", "batch"},
                                                {"microbatches", "1", "microbatches"},
                                                {"schedule", kind.schedule, "schedule"},
                                                {"workers", kind.workers, "workers"}};
    const Plan plan = make_plan(parse_run_spec(settings));
    const bool pipeline = plan.parallel.program == Program::pipeline;
    c10::cuda::CUDACachingAllocator::resetPeakStats(device);
    const std::int64_t before = allocated().current;
    const std::unique_ptr<StepProgram> program =
        pipeline ? make_pipeline_program(plan, runtime) : make_autograd_program(plan, runtime);
    for (int step = 0; step < 3; ++step) program->step(nullptr);
    Sample sample;
    sample.key.probe = Probe::memory;
    sample.key.name = kind.name;
    sample.key.implementation = pipeline ? "pipeline" : "autograd";
    sample.unit = "bytes";
    sample.values = {static_cast<double>(allocated().peak - before - predict_memory_bytes(plan, {}).front())};
    collect(std::move(sample));
  }
}

#endif

}  // namespace

void probe_host(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                const Progress& progress) {
  progress(0, "host");
  double answer_us = 0;
#if PDL_CUDA
  if (runtime.device == DeviceKind::cuda) {
    probe_workspaces(runtime, collect);
    answer_us = probe_launches(runtime, options.transports, collect);
  }
#endif
  probe_steps(static_cast<int>(options.gpus), runtime, answer_us, collect);
  if (runtime.device == DeviceKind::cpu) {
    Sample issue = host_sample("transfer_issue", repeat([] { return elapsed_us([] {}); }));
    issue.key.transport = "copy";
    collect(std::move(issue));
  }
}

}  // namespace pdl
