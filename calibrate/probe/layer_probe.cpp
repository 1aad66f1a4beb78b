#include "calibrate/probe/layer_probe.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <memory>

#include "calibrate/probe/autograd_operations.hpp"
#include "calibrate/probe/compute_operations.hpp"
#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/kernel_trace.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/measure/environment.hpp"

#if PDL_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr int kLaunchesALayer = 8;      // no operation launches more for a layer,
constexpr int kLaunchesALayerAmp = 14;  // nor under autocast
constexpr double kSustainedSeconds = 0.06;

/// What is probed in one go: layers of one width with one data type; those of row-wise kinds; or buckets.
struct Pass {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::vector<std::int64_t> dims;           // one; none: buckets alone
  std::vector<std::int64_t> pipeline_rows;  // of PipelineStage; none: no such stages
  std::vector<std::int64_t> rows;           // of the modules under autograd
  std::vector<Layer> row_wise;              // of all kinds that are (LayerScaling), with the rows that follow
  std::vector<std::int64_t> row_wise_rows;
  std::vector<std::string> optimizers;
  std::vector<std::int64_t> buckets;  // numbers
  double seconds = 0.06;              // of an operation of several layers; half of it for one of one layer
  double sustained_seconds = 0;
  int launches_a_layer = kLaunchesALayer;
  double share = 0.2;  // seconds, about; of the buckets
};

std::vector<std::int64_t> bucket_sizes(bool cuda) {
  std::vector<std::int64_t> sizes;
  const std::int64_t largest = std::int64_t{cuda ? 128 : 4} << 20;
  for (std::int64_t size = 4096; size <= largest; size *= cuda ? 4 : 2) sizes.push_back(size);
  if (sizes.back() != largest) sizes.push_back(largest);
  return sizes;
}

/// Seconds of all operations of layers of so many rows in fp32, as they were on 2 x H200 (2026-11-29): series of a
/// given length, and what the least repetitions of large layers take beyond it.
double seconds_of(std::int64_t dim, std::int64_t rows) {
  return 0.35 + static_cast<double>(dim * dim * rows) * 6e-11;
}

/// The same layers in other data types, as a share of that. Autocast is not in a pipeline's stages.
double share_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? 1 : is_amp(dtype) ? 0.2 : 0.6;
}

/// All but the width.
Pass pass_of(const ProbeOptions& options, Dtype dtype) {
  Pass pass;
  pass.dtype = dtype;
  pass.rows = options.rows;
  if (!is_amp(dtype)) {
    std::copy_if(options.rows.begin(), options.rows.end(), std::back_inserter(pass.pipeline_rows),
                 [&](std::int64_t rows) { return rows >= options.least_pipeline_rows; });
  } else {
    pass.launches_a_layer = kLaunchesALayerAmp;
  }
  if (dtype != Dtype::fp32 && options.device == "cuda") {
    pass.seconds = 0.03;
    pass.sustained_seconds = kSustainedSeconds;
  }
  return pass;
}

/// The first, every third and the last one: times of row-wise kinds follow the numbers of their results.
std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i % 3 == 0 || i + 1 == sizes.size()) some.push_back(sizes[i]);
  }
  return some;
}

/// Layers of row-wise kinds. TF32 is no other type for them.
std::vector<Pass> row_wise_passes(const ProbeOptions& options) {
  std::vector<Pass> passes;
  for (const Dtype dtype : options.dtypes) {
    if (dtype == Dtype::tf32) continue;
    Pass pass = pass_of(options, dtype);
    pass.name = "compute " + to_string(dtype) + " row-wise";
    pass.row_wise_rows = some_of(options.rows);
    pass.rows.clear();
    pass.sustained_seconds = 0;  // the memory is not held back by the power limit
    pass.seconds = 0.012;
    for (const LayerKind* kind : layer_kinds()) {
      if (kind->scaling != LayerScaling::row_wise) continue;
      for (const std::int64_t width : some_of(options.dims)) pass.row_wise.push_back(layer_of_width(*kind, width));
    }
    pass.share = 0.15 * static_cast<double>(pass.row_wise.size());
    if (!pass.row_wise.empty()) passes.push_back(std::move(pass));
  }
  return passes;
}

/// Optimizers and buckets do not depend on the data type: with the first one, and last.
std::vector<Pass> passes_of(const ProbeOptions& options) {
  std::vector<Pass> passes;
  for (const Dtype dtype : options.dtypes) {
    for (const std::int64_t dim : dtype == Dtype::fp32 ? options.dims : options.tensor_core_dims) {
      Pass pass = pass_of(options, dtype);
      pass.name = "compute " + to_string(dtype) + " " + std::to_string(dim);
      pass.dims = {dim};
      if (dtype == options.dtypes.front()) pass.optimizers = options.optimizers;
      pass.share = 0;
      for (const std::int64_t rows : pass.rows) pass.share += share_of(dtype) * seconds_of(dim, rows);
      passes.push_back(std::move(pass));
    }
  }
  for (Pass& pass : row_wise_passes(options)) passes.push_back(std::move(pass));
  Pass buckets = pass_of(options, options.dtypes.front());
  buckets.name = "compute buckets";
  buckets.rows.clear();
  buckets.pipeline_rows.clear();
  buckets.buckets = bucket_sizes(options.device == "cuda");
  passes.push_back(std::move(buckets));
  return passes;
}

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

/// Calls visit(operation) for everything that is probed on one device, shape after shape; buffers of a shape are freed
/// before the next. visit_shape(fraction, what) is called before each shape.
void for_each_operation(const Pass& pass, const RuntimeOptions& runtime, c10::Device device,
                        const std::function<void(const ComputeOperation&)>& visit,
                        const std::function<void(double, const std::string&)>& visit_shape) {
  double total = 0, done = 0;
  for (const std::int64_t dim : pass.dims) {
    for (const std::int64_t rows : pass.rows) total += seconds_of(dim, rows);
  }
  const auto visit_all = [&](auto&& operations) {
    for (const ComputeOperation& operation : operations) visit(operation);
  };
  for (const std::int64_t dim : pass.dims) {
    for (const std::int64_t rows : pass.rows) {
      visit_shape(done / total, "layers " + to_string(pass.dtype) + " " + std::to_string(dim) + " x " +
                                    std::to_string(dim) + ", " + std::to_string(rows) + " rows");
      if (std::find(pass.pipeline_rows.begin(), pass.pipeline_rows.end(), rows) != pass.pipeline_rows.end()) {
        const c10::InferenceMode without_autograd;
        PipelineOperations pipeline(dim, rows, pass.dtype, device, runtime);
        visit_all(pipeline.layers_and_loss());
      }
      AutogradOperations autograd(linear_relu(dim, dim), rows, pass.dtype, device, runtime);
      visit_all(autograd.layers());
      visit(autograd.loss());
      done += seconds_of(dim, rows);
    }
    for (const std::string& optimizer : pass.optimizers) {
      {
        const c10::InferenceMode without_autograd;
        OptimizerOperations pipeline(dim, optimizer, device, runtime);
        visit_all(pipeline.list());
      }
      AutogradOptimizerOperations autograd(dim, optimizer, device, runtime);
      visit_all(autograd.list());
    }
    if (!pass.optimizers.empty()) {
      AutogradOptimizerOperations unscale(dim, "unscale", device, runtime);
      visit_all(unscale.list());
    }
  }
  for (const Layer& layer : pass.row_wise) {
    for (const std::int64_t rows : pass.row_wise_rows) {
      visit_shape(1, to_text(layer) + ", " + std::to_string(rows) + " rows");
      if (!is_amp(pass.dtype)) {
        const c10::InferenceMode without_autograd;
        RowWisePipelineOperations pipeline(layer, rows, device, runtime);
        visit_all(pipeline.list());
      }
      AutogradOperations autograd(layer, rows, pass.dtype, device, runtime);
      visit_all(autograd.layers());
    }
  }
  for (const std::int64_t numbers : pass.buckets) {
    visit_shape(1, "buckets of " + std::to_string(numbers) + " numbers");
    BucketOperations buckets(numbers, device);
    visit_all(buckets.list());
  }
}

Sample timed_sample(const ComputeOperation& operation, const Timed& timed) {
  Sample sample;
  sample.key = operation.key;
  sample.unit = "us";
  sample.warmup = timed.warmup;
  const auto to_us = [&](double ns) { return ns / 1e3 / static_cast<double>(operation.layers); };
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

std::vector<Sample> time_device(const Pass& pass, const RuntimeOptions& runtime, int worker, const Progress& progress,
                                const Pace& pace) {
  const c10::Device device = device_of(runtime, worker);
  const OnStreamOfItsOwn on_stream(device);
  const DeviceTimer timer(device);
  std::vector<Sample> samples;
  for_each_operation(
      pass, runtime, device,
      [&](const ComputeOperation& operation) {
        const double share = pace();
        const double seconds = share * (operation.layers > 1 ? pass.seconds : pass.seconds / 2);
        const int launches = pass.launches_a_layer * static_cast<int>(operation.layers);
        samples.push_back(
            timed_sample(operation, timer.time(operation.work, seconds, launches, share * pass.sustained_seconds)));
        Waiting::renew();
        const CardState state = read_card_state(device);
        samples.back().sm_clock_mhz = state.sm_clock_mhz;
        samples.back().power_w = state.power_w;
      },
      progress);
  return samples;
}

/// One sample a key: the values of the first device with their warm-up, then the other devices' without theirs.
void merge(std::vector<Sample>& all, const std::vector<Sample>& of_device) {
  if (all.empty()) {
    all = of_device;
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto append = [&](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin() + of_device[i].warmup, from.end());
    };
    append(all[i].values, of_device[i].values);
    append(all[i].issue_values, of_device[i].issue_values);
  }
}

void trace_device(const Pass& pass, const RuntimeOptions& runtime, std::vector<Sample>& samples,
                  const Progress& progress) {
  if (runtime.device != DeviceKind::cuda) return;
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
std::vector<Sample> probe_pass(const Pass& pass, int workers, const RuntimeOptions& runtime, const Progress& progress,
                               const Pace& pace) {
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

}  // namespace

std::vector<ProbePart> compute_parts(const ProbeOptions& options, const RuntimeOptions& runtime, const Pace& pace) {
  std::vector<ProbePart> parts;
  for (const Pass& pass : passes_of(options)) {
    const auto workers = static_cast<int>(options.gpus);
    parts.push_back({pass.name, pass.share, [=, &pace](const Collect& collect, const Progress& progress) {
                       for (Sample& sample : probe_pass(pass, workers, runtime, progress, pace))
                         collect(std::move(sample));
                     }});
  }
  return parts;
}

}  // namespace pdl
