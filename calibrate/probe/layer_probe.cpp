#include "calibrate/probe/layer_probe.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
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
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr int kLaunchesALayer = 8;      // no operation launches more for a layer,
constexpr int kLaunchesALayerAmp = 14;  // nor under autocast
constexpr double kSustainedSeconds = 0.06;

/// Repetitions of what is long: in fp32, where a card is not at its power limit, 4 agree to 0.1 %.
constexpr int kLeastRepetitions = 6;
constexpr int kLeastRepetitionsFp32 = 4;

/// Numbers of layers that an optimizer updates at once: of each width, and of the largest width, as far as there is
/// memory. Adam of LibTorch's modules holds parameters, gradients, two moments and, for a moment, as much again and more.
constexpr std::int64_t kOptimizerLayers[] = {1, 4};
constexpr std::int64_t kOptimizerLayersOfLargest[] = {8, 20};
constexpr std::int64_t kOptimizerBytesAParameter = 40;

/// What is probed in one go, with LibTorch set up for one data type.
struct Pass {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::vector<LayerShape> layers;
  std::vector<LossShape> losses;
  std::vector<OptimizerShape> optimizers;
  std::vector<std::int64_t> buckets;  // numbers
  double seconds = 0.06;              // of an operation of several layers; half of it for one of one layer
  double sustained_seconds = 0;
  int least_repetitions = kLeastRepetitions;
  int launches_a_layer = kLaunchesALayer;
  double share = 0;  // seconds, about
};

std::vector<std::int64_t> bucket_sizes(bool cuda) {
  std::vector<std::int64_t> sizes;
  const std::int64_t largest = std::int64_t{cuda ? 128 : 4} << 20;
  for (std::int64_t size = 4096; size <= largest; size *= cuda ? 4 : 2) sizes.push_back(size);
  if (sizes.back() != largest) sizes.push_back(largest);
  return sizes;
}

/// Autocast is not in a pipeline's stages.
bool has_pipeline(Dtype dtype) {
  return !is_amp(dtype);
}

bool is_row_wise(const Layer& layer) {
  return layer.kind->scaling == LayerScaling::row_wise;
}

/// Seconds of all operations of a layer, about, as they were on 2 x H200 (2026-11-29): series of a given length, and
/// what the least repetitions of large layers take beyond it.
double seconds_of(const LayerShape& shape) {
  if (is_row_wise(shape.layer)) return 0.05;
  const double products =
      static_cast<double>(input_numbers(shape.layer)) * static_cast<double>(output_numbers(shape.layer));
  const double fp32 = 0.3 + products * static_cast<double>(shape.rows) * 5e-11;
  return fp32 * (shape.dtype == Dtype::fp32 ? 1 : has_pipeline(shape.dtype) ? 0.6 : 0.2);
}

/// All but what is probed.
Pass pass_of(const ProbeOptions& options, Dtype dtype, const std::string& name) {
  Pass pass;
  pass.name = name;
  pass.dtype = dtype;
  if (is_amp(dtype)) pass.launches_a_layer = kLaunchesALayerAmp;
  if (options.device != "cuda") return pass;
  if (dtype == Dtype::fp32) {
    pass.seconds = 0.02;
    pass.least_repetitions = kLeastRepetitionsFp32;
  } else {
    pass.seconds = 0.03;
    pass.sustained_seconds = kSustainedSeconds;
  }
  return pass;
}

/// Memory is not held back by the power limit.
Pass row_wise_pass_of(const ProbeOptions& options, Dtype dtype, const std::string& name) {
  Pass pass = pass_of(options, dtype, name);
  pass.sustained_seconds = 0;
  pass.seconds = 0.012;
  return pass;
}

/// As the programs of a data type have them: of a pipeline where its rows are not too few.
LayerShape in_all_programs(const ProbeOptions& options, LayerShape shape) {
  shape.pipeline = has_pipeline(shape.dtype) && (is_row_wise(shape.layer) || shape.rows >= options.least_pipeline_rows);
  shape.autograd = true;
  return shape;
}

void add_losses(Pass& pass, const LayerShape& shape) {
  const std::int64_t width = output_numbers(shape.layer);
  if (shape.pipeline) pass.losses.push_back({"pipeline", shape.dtype, shape.rows, width});
  if (shape.autograd) pass.losses.push_back({"autograd", shape.dtype, shape.rows, width});
}

const std::vector<std::int64_t>& widths_of(const ProbeOptions& options, Dtype dtype) {
  return dtype == Dtype::fp32 ? options.dims : options.tensor_core_dims;
}

/// Square layers of a width and all rows, each with its loss; with the largest width also the loss of as many rows.
std::vector<Pass> grid_passes(const ProbeOptions& options, Dtype dtype) {
  std::vector<Pass> passes;
  for (const std::int64_t width : widths_of(options, dtype)) {
    Pass pass = pass_of(options, dtype, "compute " + to_string(dtype) + " " + std::to_string(width));
    for (const std::int64_t rows : options.rows) {
      pass.layers.push_back(in_all_programs(options, {linear_relu(width, width), rows, dtype}));
      add_losses(pass, pass.layers.back());
    }
    if (width == widths_of(options, dtype).back() && width > options.rows.back())
      add_losses(pass, in_all_programs(options, {linear_relu(width, width), width, dtype}));
    passes.push_back(std::move(pass));
  }
  return passes;
}

/// Layers between the widths of the grid, and layers that are not square.
Pass random_pass(const ProbeOptions& options, Dtype dtype) {
  Pass pass = pass_of(options, dtype, "compute " + to_string(dtype) + " between widths");
  const std::int64_t count = dtype == Dtype::fp32 ? options.random_shapes : options.random_shapes * 2 / 3;
  const std::int64_t least_rows = std::clamp(options.least_pipeline_rows, options.rows.front(), options.rows.back());
  const ShapeBounds bounds{widths_of(options, dtype).front(), widths_of(options, dtype).back(), least_rows,
                           options.rows.back()};
  for (const LayerShape& shape : random_layer_shapes(count, bounds, dtype, static_cast<std::uint64_t>(dtype)))
    pass.layers.push_back(in_all_programs(options, shape));
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
Pass row_wise_grid_pass(const ProbeOptions& options, Dtype dtype) {
  Pass pass = row_wise_pass_of(options, dtype, "compute " + to_string(dtype) + " row-wise");
  for (const LayerKind* kind : layer_kinds()) {
    if (kind->scaling != LayerScaling::row_wise || dtype == Dtype::tf32) continue;
    for (const std::int64_t width : some_of(options.dims)) {
      for (const std::int64_t rows : some_of(options.rows))
        pass.layers.push_back(in_all_programs(options, {layer_of_width(*kind, width), rows, dtype}));
    }
  }
  return pass;
}

void add_optimizers(Pass& pass, const ProbeOptions& options, std::int64_t width, std::int64_t layers) {
  const std::vector<Layer> all(static_cast<std::size_t>(layers), linear_relu(width, width));
  for (const std::string& optimizer : options.optimizers) {
    for (const char* implementation : {"pipeline", "autograd"})
      pass.optimizers.push_back({implementation, optimizer, all});
  }
  pass.optimizers.push_back({"autograd", "unscale", all});
}

bool fits(const OptimizerShape& shape, std::int64_t memory_bytes) {
  return parameters(shape) <= memory_bytes / kOptimizerBytesAParameter;
}

/// They do not depend on the data type. Of the many layers as many as there is memory for.
Pass optimizer_pass(const ProbeOptions& options, std::int64_t memory_bytes) {
  Pass pass = pass_of(options, options.dtypes.front(), "compute optimizers");
  pass.sustained_seconds = 0;
  for (const std::int64_t width : options.dims) {
    for (const std::int64_t layers : kOptimizerLayers) add_optimizers(pass, options, width, layers);
  }
  const std::int64_t largest = options.dims.back();
  const std::int64_t most = memory_bytes / kOptimizerBytesAParameter / parameters(linear_relu(largest, largest));
  std::int64_t before = 0;
  for (const std::int64_t wanted : kOptimizerLayersOfLargest) {
    const std::int64_t layers = std::min(wanted, most);
    if (layers > std::max(before, *std::rbegin(kOptimizerLayers))) add_optimizers(pass, options, largest, layers);
    before = layers;
  }
  std::erase_if(pass.optimizers, [&](const OptimizerShape& shape) { return !fits(shape, memory_bytes); });
  if (most < *std::rbegin(kOptimizerLayersOfLargest) && options.note) {
    options.note("memory for an optimizer of " + std::to_string(most) + " layers of width " + std::to_string(largest) +
                 ", not of " + std::to_string(*std::rbegin(kOptimizerLayersOfLargest)) + ": its curve ends there");
  }
  return pass;
}

/// What a plan needs: products and row-wise kinds of each data type, then the optimizers.
std::vector<Pass> plan_passes(const ProbeOptions& options, const PlanShapes& plan, Dtype dtype,
                              std::int64_t memory_bytes) {
  Pass optimizers = pass_of(options, Dtype::fp32, "plan: optimizers");
  for (const OptimizerShape& shape : plan.optimizers) {
    if (fits(shape, memory_bytes)) {
      optimizers.optimizers.push_back(shape);
    } else if (options.note) {
      options.note("no memory to measure " + shape.optimizer + " of " + std::to_string(parameters(shape)) +
                   " parameters beside what it needs in training; taken from the curve");
    }
  }
  std::vector<Pass> passes;
  for (const Dtype of_layers : dtype == Dtype::fp32 ? std::vector{dtype} : std::vector{Dtype::fp32, dtype}) {
    Pass products = pass_of(options, of_layers, "plan: " + to_string(of_layers));
    Pass row_wise = row_wise_pass_of(options, of_layers, products.name + " row-wise");
    for (const LayerShape& shape : plan.layers) {
      if (shape.dtype == of_layers) (is_row_wise(shape.layer) ? row_wise : products).layers.push_back(shape);
    }
    if (of_layers == dtype) products.losses = plan.losses;
    passes.push_back(std::move(products));
    passes.push_back(std::move(row_wise));
  }
  passes.push_back(std::move(optimizers));
  return passes;
}

/// Seconds, about: of all layers, losses, optimizers and buckets.
double share_of(const Pass& pass) {
  double seconds = 0.005 * static_cast<double>(pass.losses.size() + pass.buckets.size());
  for (const LayerShape& shape : pass.layers) seconds += seconds_of(shape);
  for (const OptimizerShape& shape : pass.optimizers) seconds += 0.02 + 1e-10 * static_cast<double>(parameters(shape));
  return seconds;
}

bool is_empty(const Pass& pass) {
  return pass.layers.empty() && pass.losses.empty() && pass.optimizers.empty() && pass.buckets.empty();
}

std::vector<Pass> all_passes(const ProbeOptions& options, std::int64_t memory_bytes) {
  std::vector<Pass> passes;
  const auto add = [&](Pass pass) { passes.push_back(std::move(pass)); };
  for (const Dtype dtype : options.dtypes) {
    for (Pass& pass : grid_passes(options, dtype)) add(std::move(pass));
    add(random_pass(options, dtype));
  }
  for (const Dtype dtype : options.dtypes) add(row_wise_grid_pass(options, dtype));
  add(optimizer_pass(options, memory_bytes));
  Pass buckets = pass_of(options, options.dtypes.front(), "compute buckets");
  buckets.sustained_seconds = 0;
  buckets.buckets = bucket_sizes(options.device == "cuda");
  add(std::move(buckets));
  return passes;
}

/// Removes what these passes measure.
void remove_probed(PlanShapes& plan, const std::vector<Pass>& passes) {
  for (const Pass& pass : passes) {
    for (LayerShape& shape : plan.layers) {
      for (const LayerShape& probed : pass.layers) {
        if (probed.layer != shape.layer || probed.rows != shape.rows || probed.dtype != shape.dtype) continue;
        shape.pipeline = shape.pipeline && !probed.pipeline;
        shape.autograd = shape.autograd && !probed.autograd;
      }
    }
    std::erase_if(plan.losses, [&](const LossShape& shape) {
      return std::any_of(pass.losses.begin(), pass.losses.end(), [&](const LossShape& probed) {
        return probed.implementation == shape.implementation && probed.dtype == shape.dtype &&
               probed.rows * probed.width == shape.rows * shape.width;
      });
    });
    std::erase_if(plan.optimizers, [&](const OptimizerShape& shape) {
      return std::find(pass.optimizers.begin(), pass.optimizers.end(), shape) != pass.optimizers.end();
    });
  }
  std::erase_if(plan.layers, [](const LayerShape& shape) { return !shape.pipeline && !shape.autograd; });
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

/// Calls visit(operation) for every operation of a layer.
void for_each_of_layer(const LayerShape& shape, const RuntimeOptions& runtime, c10::Device device,
                       const std::function<void(const ComputeOperation&)>& visit) {
  const auto visit_all = [&](std::vector<ComputeOperation> operations) {
    for (const ComputeOperation& operation : operations) visit(operation);
  };
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
void for_each_operation(const Pass& pass, const RuntimeOptions& runtime, c10::Device device,
                        const std::function<void(const ComputeOperation&)>& visit,
                        const std::function<void(double, const std::string&)>& visit_shape) {
  double done = 0;
  for (const LayerShape& shape : pass.layers) {
    visit_shape(done / pass.share, "layers " + to_string(shape.dtype) + " " + to_text(shape.layer) + ", " +
                                       std::to_string(shape.rows) + " rows");
    for_each_of_layer(shape, runtime, device, visit);
    done += seconds_of(shape);
  }
  for (const LossShape& shape : pass.losses) {
    visit_shape(done / pass.share, "loss of " + std::to_string(shape.rows * shape.width) + " numbers");
    if (shape.implementation == "pipeline") {
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
        samples.push_back(timed_sample(operation, timer.time(operation.work, seconds, launches,
                                                             share * pass.sustained_seconds, pass.least_repetitions)));
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

/// One a pass that has something to probe.
std::vector<ProbePart> parts_of(std::vector<Pass> passes, const ProbeOptions& options, const RuntimeOptions& runtime,
                                const Pace& pace) {
  std::vector<ProbePart> parts;
  for (Pass& pass : passes) {
    if (is_empty(pass)) continue;
    pass.share = share_of(pass);
    const auto workers = static_cast<int>(options.gpus);
    parts.push_back({pass.name, pass.share, [=, &pace](const Collect& collect, const Progress& progress) {
                       for (Sample& sample : probe_pass(pass, workers, runtime, progress, pace))
                         collect(std::move(sample));
                     }});
  }
  return parts;
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
  const std::int64_t memory_bytes = memory_of_worker(options, runtime);
  std::vector<Pass> passes;
  if (!options.beside) passes = all_passes(options, memory_bytes);
  if (plan) {
    PlanShapes shapes = plan->shapes;
    remove_probed(shapes, passes);
    for (Pass& pass : plan_passes(options, shapes, plan->dtype, memory_bytes)) passes.push_back(std::move(pass));
  }
  return parts_of(std::move(passes), options, runtime, pace);
}

}  // namespace pdl
