#include "calibrate/probe/overlap_probe.hpp"

#include <ATen/ATen.h>

#include <torch/cuda.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "calibrate/probe/compute_operations.hpp"
#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/nccl_workers.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/statistics.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {

#if PDL_CUDA

namespace {

constexpr std::int64_t MiB = std::int64_t{1} << 20;

/// What runs beside the layers.
struct Exchange {
  const char* operation;
  std::vector<std::int64_t> bytes;
};

const Exchange kAllReduce{"all_reduce", {4 * MiB, 25 * MiB, 128 * MiB}};
const Exchange kSendReceive{"send_receive", {MiB / 16, MiB, 16 * MiB, 256 * MiB}};
constexpr std::int64_t kLargest = 256 * MiB;
constexpr double kSecondsOfEach = 0.05;
constexpr int kMostCalls = 300;

struct Shape {
  std::int64_t dim, rows;  // rows 0: copies of dim x dim numbers instead of a layer
  Dtype dtype;
};

constexpr Shape kShapes[] = {{8192, 0, Dtype::fp32},    {8192, 16, Dtype::fp32},      {8192, 64, Dtype::fp32},
                             {4096, 64, Dtype::fp32},   {4096, 512, Dtype::fp32},     {8192, 512, Dtype::fp32},
                             {8192, 2048, Dtype::fp32}, {4096, 512, Dtype::amp_bf16}, {8192, 2048, Dtype::amp_bf16}};

/// Work that one stream does again and again, with an event after each.
struct Track {
  c10::cuda::CUDAStream stream;
  std::vector<at::cuda::CUDAEvent> events;

  explicit Track(int device) : stream(c10::cuda::getStreamFromPool(true, static_cast<c10::DeviceIndex>(device))) {
    for (int i = 0; i <= kMostCalls; ++i) events.emplace_back(cudaEventDefault);
  }
  void record(int i) {
    const c10::cuda::CUDAGuard guard(stream.device_index());
    events[static_cast<std::size_t>(i)].record(stream);
  }
  double ms(int from, int to) {
    return events[static_cast<std::size_t>(from)].elapsed_time(events[static_cast<std::size_t>(to)]);
  }
};

struct Gpu {
  Track compute, collective;
  at::Tensor input, weight, bias, message;
  at::Tensor copy;  // of the weight, where nothing is computed

  explicit Gpu(int device) : compute(device), collective(device) {
    message = at::zeros({kLargest / 4}, at::TensorOptions().dtype(at::kFloat).device(compute.stream.device()));
  }
  void take(const Shape& shape) {
    const auto type = is_amp(shape.dtype) ? at::kBFloat16 : at::kFloat;
    const auto options = at::TensorOptions().dtype(at::kFloat).device(compute.stream.device());
    input = at::randn({shape.rows, shape.dim}, options).relu_().to(type);
    weight = (at::randn({shape.dim, shape.dim}, options) / std::sqrt(static_cast<double>(shape.dim))).to(type);
    bias = at::zeros({shape.dim}, options).to(type);
    copy = shape.rows == 0 ? at::empty_like(weight) : at::Tensor();
  }
};

class OverlapGroup {
 public:
  OverlapGroup(std::vector<std::unique_ptr<Gpu>>& gpus, const std::vector<int>& devices)
      : gpus_(gpus), ranks_(static_cast<int>(devices.size())), comms_(devices) {}

  void probe(const Shape& shape, const Exchange& exchange, const Collect& collect) {
    exchange_ = &exchange;
    for (const std::int64_t bytes : exchange.bytes) probe(shape, bytes, collect);
  }

 private:
  void probe(const Shape& shape, std::int64_t bytes, const Collect& collect) {
    run(2, 2, bytes);
    const std::vector<double> layers_us = alone(true, bytes), messages_us = alone(false, bytes);
    const double layer_ms = median(layers_us) / 1e3, message_ms = median(messages_us) / 1e3;
    give("compute_alone", shape, bytes, layers_us, collect);
    give("communication_alone", shape, bytes, messages_us, collect);
    // As much of both as fills the same time alone; of each the part is kept in which the other still ran.
    const auto calls = [](double ms) {
      return static_cast<int>(std::clamp(kSecondsOfEach * 1e3 / ms, 4.0, kMostCalls * 1.0));
    };
    const int layers = calls(layer_ms), messages = calls(message_ms);
    run(layers, messages, bytes);
    give("compute", shape, bytes, times(true, layers, messages), collect);
    give("communication", shape, bytes, times(false, messages, layers), collect);
  }

  Track& track(int rank, bool compute) {
    Gpu& gpu = *gpus_[static_cast<std::size_t>(rank)];
    return compute ? gpu.compute : gpu.collective;
  }

  void layer(int rank) {
    Gpu& gpu = *gpus_[static_cast<std::size_t>(rank)];
    const c10::cuda::CUDAStreamGuard guard(gpu.compute.stream);
    if (gpu.copy.defined()) {
      gpu.copy.copy_(gpu.weight);
    } else {
      at::linear(gpu.input, gpu.weight, gpu.bias);
    }
  }

  void message(std::int64_t bytes) {
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (int rank = 0; rank < ranks_; ++rank) {
      float* buffer = gpus_[static_cast<std::size_t>(rank)]->message.data_ptr<float>();
      const auto count = static_cast<std::size_t>(bytes / 4);
      const cudaStream_t stream = track(rank, false).stream;
      if (exchange_ == &kAllReduce) {
        check_nccl(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comms_.of(rank), stream), "ncclAllReduce");
      } else if (rank == 0) {
        check_nccl(ncclSend(buffer, count, ncclFloat, 1, comms_.of(rank), stream), "ncclSend");
      } else {
        check_nccl(ncclRecv(buffer, count, ncclFloat, 0, comms_.of(rank), stream), "ncclRecv");
      }
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

  /// Both tracks of all GPUs, issued while they are held; both wait for the same event.
  void run(int layers, int messages, std::int64_t bytes) {
    const at::NoGradGuard no_grad;
    for (int rank = 0; rank < ranks_; ++rank) {
      const c10::cuda::CUDAStreamGuard guard(track(rank, true).stream);
      hold_current_stream(500'000 + std::int64_t{layers + messages} * ranks_ * 15'000);
      at::cuda::CUDAEvent released{cudaEventDisableTiming};
      released.record(track(rank, true).stream);
      released.block(track(rank, false).stream);
      track(rank, true).record(0);
      track(rank, false).record(0);
    }
    for (int i = 1; i <= std::max(layers, messages); ++i) {
      for (int rank = 0; i <= layers && rank < ranks_; ++rank) {
        layer(rank);
        track(rank, true).record(i);
      }
      if (i > messages) continue;
      message(bytes);
      for (int rank = 0; rank < ranks_; ++rank) track(rank, false).record(i);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      track(rank, true).stream.synchronize();
      track(rank, false).stream.synchronize();
    }
  }

  /// Of each call after the first, on all GPUs.
  std::vector<double> alone(bool compute, std::int64_t bytes) {
    const int calls = 6;
    run(compute ? calls : 0, compute ? 0 : calls, bytes);
    std::vector<double> us;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int i = 2; i <= calls; ++i) us.push_back(track(rank, compute).ms(i - 1, i) * 1e3);
    }
    return us;
  }

  /// Of each call on `compute` or the other track, after the first, that ended before the other track did.
  std::vector<double> times(bool compute, int calls, int others) {
    std::vector<double> us;
    for (int rank = 0; rank < ranks_; ++rank) {
      const double other_end_ms = track(rank, !compute).ms(0, others);
      for (int i = 2; i <= calls && (us.empty() || track(rank, compute).ms(0, i) < other_end_ms); ++i)
        us.push_back(track(rank, compute).ms(i - 1, i) * 1e3);
    }
    return us;
  }

  void give(const char* name, const Shape& shape, std::int64_t bytes, std::vector<double> us, const Collect& collect) {
    Sample sample;
    sample.key.probe = Probe::overlap;
    sample.key.name = name;
    sample.key.operation = shape.rows == 0 ? kAllReduceBesideCopies : exchange_->operation;
    sample.key.transport = "nccl";
    sample.key.ranks = ranks_;
    sample.key.dtype = shape.dtype;
    sample.key.layer = linear_relu(shape.dim, shape.dim);
    sample.key.rows = std::max<std::int64_t>(shape.rows, 1);
    sample.key.size = bytes;
    sample.unit = "us";
    sample.values = std::move(us);
    sample.calls_before = 1;
    collect(std::move(sample));
  }

  std::vector<std::unique_ptr<Gpu>>& gpus_;
  int ranks_;
  const Exchange* exchange_ = &kAllReduce;
  NcclWorkers comms_;
};

/// Of products that fill a GPU, as those of pipelines do.
bool has_messages_beside(const Shape& shape) {
  return shape.rows >= 512;
}

}  // namespace

void probe_overlap(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                   const Progress& progress) {
  const std::vector<std::string>& transports = options.transports;
  const bool nccl = std::find(transports.begin(), transports.end(), "nccl") != transports.end();
  if (runtime.device != DeviceKind::cuda || options.gpus < 2 || !nccl) return;
  std::vector<int> devices;
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int worker = 0; worker < options.gpus; ++worker) {
    devices.push_back(runtime.device_index(worker));
    gpus.push_back(std::make_unique<Gpu>(devices.back()));
  }
  for (const int ranks : std::set<int>{2, static_cast<int>(options.gpus)}) {
    OverlapGroup group(gpus, {devices.begin(), devices.begin() + ranks});
    for (const Shape& shape : kShapes) {
      if (std::find(options.dtypes.begin(), options.dtypes.end(), shape.dtype) == options.dtypes.end()) continue;
      progress(ranks > 2 ? 0.5 : 0, "exchange of " + std::to_string(ranks) + " beside " + to_string(shape.dtype) + " " +
                                        std::to_string(shape.dim) + ", " + std::to_string(shape.rows) + " rows");
      for (int rank = 0; rank < ranks; ++rank) {
        gpus[static_cast<std::size_t>(rank)]->take(shape);
        torch::cuda::synchronize(devices[static_cast<std::size_t>(rank)]);
      }
      group.probe(shape, kAllReduce, collect);
      if (ranks == 2 && has_messages_beside(shape)) group.probe(shape, kSendReceive, collect);
    }
  }
  gpus.clear();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

#else

void probe_overlap(const ProbeOptions&, const RuntimeOptions&, const Collect&, const Progress&) {}

#endif

}  // namespace pdl
