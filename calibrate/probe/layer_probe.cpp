#include "calibrate/probe/layer_probe.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "calibrate/probe/autograd_operations.hpp"
#include "calibrate/probe/compute_operations.hpp"
#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/inner_operations.hpp"
#include "calibrate/probe/kernel_trace.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

/// Makes a device current for this thread, with a stream of its own.
class OnStreamOfItsOwn {
 public:
  explicit OnStreamOfItsOwn(c10::Device device) {
#if PDL_CUDA
    if (device.is_cuda())
      guard_ = std::make_unique<c10::cuda::CUDAStreamGuard>(c10::cuda::getStreamFromPool(true, device.index()));
#else
    (void)device;
#endif
  }

 private:
#if PDL_CUDA
  std::unique_ptr<c10::cuda::CUDAStreamGuard> guard_;
#endif
};

/// Calls visit(operation) for every operation of a layer.
void for_each_of_layer(const LayerShape& shape, const RuntimeOptions& runtime, c10::Device device,
                       const std::function<void(const ComputeOperation&)>& visit) {
  const auto visit_all = [&](std::vector<ComputeOperation> operations) {
    for (const ComputeOperation& operation : operations) visit(operation);
  };
  if (is_inner_probe(shape.layer)) {
    InnerOperations inner(shape.layer, shape.rows, shape.dtype, device);
    return visit_all(inner.list());
  }
  if (shape.pipeline) {
    const c10::InferenceMode without_autograd;
    if (is_row_wise(shape.layer)) {
      RowWisePipelineOperations pipeline(shape.layer, shape.rows, device, runtime);
      visit_all(pipeline.list());
    } else {
      PipelineOperations pipeline(shape.layer, shape.rows, shape.dtype, device, runtime);
      visit_all(pipeline.layers());
    }
  }
  if (shape.autograd) {
    AutogradOperations autograd(shape.layer, shape.rows, shape.dtype, device, runtime);
    visit_all(autograd.layers());
  }
}

/// Calls visit(operation) for everything that is probed on one device, shape after shape; buffers of a shape are freed
/// before the next. visit_shape(fraction, what) is called before each shape.
void for_each_operation(const LayerPass& pass, const RuntimeOptions& runtime, c10::Device device,
                        const std::function<void(const ComputeOperation&)>& visit,
                        const std::function<void(double, const std::string&)>& visit_shape) {
  double done = 0;
  for (const LayerShape& shape : pass.layers) {
    visit_shape(done / pass.share, "layers " + to_string(shape.dtype) + " " + to_text(shape.layer) + ", " +
                                       std::to_string(shape.rows) + " rows");
    for_each_of_layer(shape, runtime, device, visit);
    done += seconds_of(pass, shape);
  }
  for (const LossShape& shape : pass.losses) {
    visit_shape(done / pass.share, "loss of " + std::to_string(shape.rows * shape.width) + " numbers");
    if (shape.loss == Loss::cross_entropy) {
      CrossEntropyOperation loss(shape.rows, shape.width, shape.dtype, device);
      visit(loss.operation());
    } else if (shape.implementation == "pipeline") {
      const c10::InferenceMode without_autograd;
      PipelineLoss loss(shape.rows, shape.width, shape.dtype, device, runtime);
      visit(loss.operation());
    } else {
      AutogradLoss loss(shape.rows, shape.width, shape.dtype, device);
      visit(loss.operation());
    }
  }
  for (const OptimizerShape& shape : pass.optimizers) {
    visit_shape(done / pass.share, shape.optimizer + " of " + std::to_string(parameters(shape)) + " parameters");
    if (shape.implementation == "pipeline") {
      const c10::InferenceMode without_autograd;
      PipelineOptimizer optimizer(shape.layers, shape.optimizer, device, runtime);
      visit(optimizer.operation());
    } else {
      AutogradOptimizer optimizer(shape.layers, shape.optimizer, device, runtime);
      visit(optimizer.operation());
    }
  }
  for (const std::int64_t numbers : pass.buckets) {
    visit_shape(done / pass.share, "buckets of " + std::to_string(numbers) + " numbers");
    BucketOperations buckets(numbers, device);
    for (const ComputeOperation& operation : buckets.list()) visit(operation);
  }
}

Sample timed_sample(const ComputeOperation& operation, const Timed& timed) {
  Sample sample;
  sample.key = operation.key;
  sample.unit = "us";
  sample.warmup = timed.warmup;
  // Events of a device have no more than nanoseconds, and there are 100,000 of them in a file.
  const auto to_us = [&](double ns) { return std::round(ns / static_cast<double>(operation.layers)) / 1e3; };
  std::transform(timed.device_ns.begin(), timed.device_ns.end(), std::back_inserter(sample.values), to_us);
  std::transform(timed.issue_ns.begin(), timed.issue_ns.end(), std::back_inserter(sample.issue_values), to_us);
  return sample;
}

/// The kernels of one layer out of those of all layers of a run: of a layer in the middle, if they divide evenly.
std::vector<KernelSample> kernels_of_a_layer(const std::vector<TracedKernel>& all, std::int64_t layers) {
  std::vector<KernelSample> kernels;
  const auto count = static_cast<std::int64_t>(all.size());
  if (count == 0 || count % layers != 0) return kernels;
  const std::int64_t each = count / layers, first = layers / 2 * each;
  for (std::int64_t k = first; k < first + each; ++k) {
    const TracedKernel& kernel = all[static_cast<std::size_t>(k)];
    kernels.push_back({kernel.name, kernel.ns / 1e3, kernel.blocks, kernel.blocks_per_multiprocessor, 1});
  }
  return kernels;
}

/// In a pass that is sustained: one of each, and with the key of that probe. False: not in it.
bool as_sustained(MeasuredKey& key) {
  if (key.accumulate || !key.input_gradient || key.layers > 0) return false;
  key.probe = Probe::sustained;
  return true;
}

std::vector<Sample> time_device(const LayerPass& pass, const RuntimeOptions& runtime, int worker,
                                const Progress& progress, const Pace& pace) {
  const c10::Device device = device_of(runtime, worker);
  const OnStreamOfItsOwn on_stream(device);
  const DeviceTimer timer(device);
  std::vector<Sample> samples;
  for_each_operation(
      pass, runtime, device,
      [&](const ComputeOperation& operation) {
        ComputeOperation probed = operation;
        if (pass.sustained_seconds > 0 && !as_sustained(probed.key)) return;
        const double share = pace();
        Series series;
        series.seconds = share * (operation.layers > 1 ? pass.seconds : pass.seconds / 2);
        series.kernels = pass.launches_a_layer * static_cast<int>(operation.layers);
        series.sustained_seconds = pass.sustained_seconds;
        series.rested = pass.rested;
        series.least_repetitions = pass.least_repetitions;
        const Timed timed = timer.time(operation.work, series);
        Waiting::renew();
        if (pass.sustained_seconds > 0 && !timed.sustained) return;  // its host is too slow for that
        samples.push_back(timed_sample(probed, timed));
        const CardState state = read_card_state(device);
        samples.back().sm_clock_mhz = state.sm_clock_mhz;
        samples.back().power_w = state.power_w;
      },
      progress);
  return samples;
}

/// One sample a key: the values of the first device with their warm-up, then the other devices' without theirs.
void merge(std::vector<Sample>& all, const std::vector<Sample>& of_device) {
  std::map<MeasuredKey, std::size_t> known;
  for (std::size_t i = 0; i < all.size(); ++i) known[all[i].key] = i;
  for (const Sample& sample : of_device) {
    const auto same = known.find(sample.key);
    if (same == known.end()) {
      all.push_back(sample);
      continue;
    }
    const auto append = [&](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin() + sample.warmup, from.end());
    };
    append(all[same->second].values, sample.values);
    append(all[same->second].issue_values, sample.issue_values);
  }
}

void trace_device(const LayerPass& pass, const RuntimeOptions& runtime, std::vector<Sample>& samples,
                  const Progress& progress) {
  if (runtime.device != DeviceKind::cuda || pass.sustained_seconds > 0) return;
  const c10::Device device = device_of(runtime, 0);
  const OnStreamOfItsOwn on_stream(device);
  std::map<MeasuredKey, Sample*> by_key;
  for (Sample& sample : samples) by_key[sample.key] = &sample;
  for_each_operation(
      pass, runtime, device,
      [&](const ComputeOperation& operation) {
        Waiting::renew();
        operation.work();  // what the first run alone launches is not the operation's
        by_key.at(operation.key)->kernels = kernels_of_a_layer(trace_kernels(operation.work), operation.layers);
      },
      progress);
}

/// On all devices at the same time.
std::vector<Sample> probe_pass(const LayerPass& pass, int workers, const RuntimeOptions& runtime,
                               const Progress& progress, const Pace& pace) {
  set_up_libtorch(pass.dtype, runtime.device);
  std::vector<std::vector<Sample>> of_workers(static_cast<std::size_t>(workers));
  on_rank_threads(workers, pass.name + " on its GPU", [&](int worker) {
    const Progress report = [&](double fraction, const std::string& what) {
      if (worker == 0) progress(0.85 * fraction, what);
    };
    of_workers[static_cast<std::size_t>(worker)] = time_device(pass, runtime, worker, report, pace);
  });
  std::vector<Sample> samples;
  for (const std::vector<Sample>& of_worker : of_workers) merge(samples, of_worker);
  trace_device(pass, runtime, samples, [&](double fraction, const std::string& what) {
    progress(0.85 + 0.15 * fraction, "kernels of " + what);
  });
  set_up_libtorch(Dtype::fp32, runtime.device);
  return samples;
}

/// Of a GPU, or of the host, shared by its workers.
std::int64_t memory_of_worker(const ProbeOptions& options, const RuntimeOptions& runtime) {
#if PDL_CUDA
  if (runtime.device == DeviceKind::cuda)
    return static_cast<std::int64_t>(at::cuda::getDeviceProperties(device_of(runtime, 0).index())->totalGlobalMem);
#else
  (void)runtime;
#endif
  return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE) / options.gpus;
}

}  // namespace

std::vector<ProbePart> compute_parts(const ProbeOptions& options, const PlanOfProbe* plan,
                                     const RuntimeOptions& runtime, const Pace& pace) {
  std::vector<ProbePart> parts;
  for (const LayerPass& pass : layer_passes(options, plan, memory_of_worker(options, runtime))) {
    const auto workers = static_cast<int>(options.gpus);
    parts.push_back({pass.name, pass.share, [=, &pace, &options](const Collect& collect, const Progress& progress) {
                       std::vector<Sample> samples = probe_pass(pass, workers, runtime, progress, pace);
                       if (pass.sustained_seconds > 0 && samples.empty() && options.note)
                         options.note("the host issues too slowly to keep the GPU busy with any layer in " +
                                      to_string(pass.dtype) + ": its power limit is not known");
                       for (Sample& sample : samples) collect(std::move(sample));
                     }});
  }
  return parts;
}

}  // namespace pdl
