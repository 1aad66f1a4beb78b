#include "calibrate/probe/collective_probe.hpp"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <algorithm>
#include <memory>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/kernel_trace.hpp"
#include "calibrate/probe/nccl_workers.hpp"
#include "runtime/comm/process_group.hpp"
#include "runtime/comm/rank_threads.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/statistics.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr std::int64_t kSmallestBytes = 1024;
constexpr std::int64_t kLargestBytes = std::int64_t{1} << 30;
constexpr std::int64_t kLargestBytesOnCpu = std::int64_t{16} << 20;
constexpr int kWarmup = 1;
constexpr int kMeasurements = 8;

Sample collective_sample(const char* operation, const char* transport, int ranks, std::int64_t bytes) {
  Sample sample;
  sample.key.probe = Probe::collective;
  sample.key.operation = operation;
  sample.key.transport = transport;
  sample.key.ranks = ranks;
  sample.key.size = bytes;
  sample.unit = "us";
  sample.warmup = kWarmup;
  return sample;
}

// ---- CPU

void collect_copies(const char* operation, int ranks, std::int64_t bytes, const std::function<void()>& work,
                    const Collect& collect) {
  Sample sample = collective_sample(operation, "copy", ranks, bytes);
  const Timed timed = DeviceTimer(c10::Device(c10::kCPU)).time(work, {.seconds = 0.003, .kernels = 1});
  sample.warmup = timed.warmup;
  for (const double ns : timed.device_ns) sample.values.push_back(ns / 1e3);
  sample.issue_values = sample.values;  // the host is the device
  collect(std::move(sample));
}

/// As runtime/comm/replica_copies.cpp does them on CPU.
void probe_copies(int ranks, const Collect& collect) {
  for (std::int64_t bytes = kSmallestBytes; bytes <= kLargestBytesOnCpu; bytes *= 2) {
    std::vector<at::Tensor> of_ranks;
    for (int rank = 0; rank < ranks; ++rank) of_ranks.push_back(at::ones({bytes / 4}));
    collect_copies(
        "broadcast", ranks, bytes,
        [&] {
          for (int rank = 1; rank < ranks; ++rank) of_ranks.front().clone();
        },
        collect);
    collect_copies(
        "reduce", ranks, bytes,
        [&] {
          at::Tensor sum = of_ranks[0] + of_ranks[1];
          for (int rank = 2; rank < ranks; ++rank) sum.add_(of_ranks[static_cast<std::size_t>(rank)]);
        },
        collect);
  }
}

#if PDL_GLOO

std::vector<std::int64_t> gloo_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = kSmallestBytes; bytes <= kLargestBytesOnCpu; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

int calls_on_cpu(std::int64_t bytes) {
  return bytes <= (64 << 10) ? 10 : bytes <= (1 << 20) ? 4 : 1;
}

/// One rank: all sizes, in step with the others. Times by size, of one call.
std::vector<std::vector<double>> all_reduce_times(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks) {
  const auto group = make_process_group({store, rank, ranks, c10::Device(c10::kCPU), true}, {});
  std::vector<std::vector<double>> times;
  for (const std::int64_t bytes : gloo_sizes()) {
    std::vector<at::Tensor> tensors = {at::zeros({bytes / 4})};
    const int calls = calls_on_cpu(bytes);
    std::vector<double> values;
    Waiting::renew();
    group->allreduce(tensors)->wait();
    for (int i = 0; i < kWarmup + kMeasurements; ++i) {
      const std::int64_t begin = steady_now_ns();
      for (int call = 0; call < calls; ++call) group->allreduce(tensors)->wait();
      values.push_back(static_cast<double>(steady_now_ns() - begin) / 1e3 / calls);
    }
    times.push_back(std::move(values));
  }
  leave(*group, c10::kCPU);
  return times;
}

void probe_gloo(int ranks, const Collect& collect) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::vector<std::vector<double>>> of_ranks(static_cast<std::size_t>(ranks));
  on_rank_threads(ranks, "all-reduces by Gloo of " + std::to_string(ranks) + " ranks",
                  [&](int rank) { of_ranks[static_cast<std::size_t>(rank)] = all_reduce_times(store, rank, ranks); });
  const std::vector<std::int64_t> sizes = gloo_sizes();
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    Sample sample = collective_sample("all_reduce", "gloo", ranks, sizes[s]);
    sample.values = of_ranks.front()[s];
    collect(std::move(sample));
  }
}

#else

void probe_gloo(int, const Collect&) {}

#endif

void probe_cpu(int workers, const Collect& collect, const Progress& progress) {
  for (int ranks = 2; ranks <= workers; ++ranks) {
    progress(static_cast<double>(ranks - 2) / workers, "collectives of " + std::to_string(ranks));
    probe_gloo(ranks, collect);
    probe_copies(ranks, collect);
  }
}

// ---- CUDA

#if PDL_CUDA

/// Stream and buffer of one GPU.
struct Member {
  c10::cuda::CUDAStream stream;
  at::Tensor buffer;
  std::vector<at::cuda::CUDAEvent> events;

  explicit Member(int device)
      : stream(c10::cuda::getStreamFromPool(true, static_cast<c10::DeviceIndex>(device))),
        buffer(
            at::zeros({kLargestBytes / 4}, at::TensorOptions()
                                               .dtype(at::kFloat)
                                               .device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device))))) {
    for (int i = 0; i <= kWarmup + kMeasurements; ++i) events.emplace_back(cudaEventDefault);
  }
};

struct NcclCollective {
  const char* name;
  std::int64_t step;  // sizes grow by this factor
  bool in_parts;      // the buffer is made of a part a rank
};

constexpr NcclCollective kNcclCollectives[] = {{"all_reduce", 2, false},
                                               {"broadcast", 4, false},
                                               {"reduce", 4, false},
                                               {"all_gather", 4, true},
                                               {"reduce_scatter", 4, true}};

class NcclGroup {
 public:
  NcclGroup(const std::vector<int>& devices, std::vector<std::unique_ptr<Member>>& members)
      : ranks_(static_cast<int>(devices.size())), members_(members), comms_(devices) {}

  void probe(const NcclCollective& collective, const Collect& collect) {
    for (std::int64_t size = kSmallestBytes; size <= kLargestBytes; size *= collective.step) {
      const std::int64_t bytes = collective.in_parts ? size / ranks_ / 16 * 16 * ranks_ : size;
      Sample sample = collective_sample(collective.name, "nccl", ranks_, bytes);
      const Waiting waiting(std::string("NCCL ") + collective.name + " of GPUs 0 to " + std::to_string(ranks_ - 1) +
                            ", " + std::to_string(bytes) + " bytes");
      call(collective, bytes);  // connections are made at the first call
      synchronize();
      measure(collective, bytes, sample);
      trace(collective, bytes, sample);
      collect(std::move(sample));
    }
  }

 private:
  Member& member(int rank) { return *members_[static_cast<std::size_t>(rank)]; }

  void call(const NcclCollective& collective, std::int64_t bytes) {
    const std::string name = collective.name;
    const auto numbers = static_cast<std::size_t>(bytes / 4);
    const std::size_t part = numbers / static_cast<std::size_t>(ranks_);
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (int rank = 0; rank < ranks_; ++rank) {
      float* buffer = member(rank).buffer.data_ptr<float>();
      float* own = buffer + part * static_cast<std::size_t>(rank);
      const cudaStream_t stream = member(rank).stream;
      const ncclComm_t comm = comms_.of(rank);
      if (name == "all_reduce")
        check_nccl(ncclAllReduce(buffer, buffer, numbers, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
      else if (name == "broadcast")
        check_nccl(ncclBroadcast(buffer, buffer, numbers, ncclFloat, 0, comm, stream), "ncclBroadcast");
      else if (name == "reduce")
        check_nccl(ncclReduce(buffer, buffer, numbers, ncclFloat, ncclSum, 0, comm, stream), "ncclReduce");
      else if (name == "all_gather")
        check_nccl(ncclAllGather(own, buffer, part, ncclFloat, comm, stream), "ncclAllGather");
      else
        check_nccl(ncclReduceScatter(buffer, own, part, ncclFloat, ncclSum, comm, stream), "ncclReduceScatter");
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

  void synchronize() {
    for (int rank = 0; rank < ranks_; ++rank) member(rank).stream.synchronize();
  }

  void record(std::size_t event) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const c10::cuda::CUDAGuard guard(member(rank).stream.device_index());
      member(rank).events[event].record(member(rank).stream);
    }
  }

  void measure(const NcclCollective& collective, std::int64_t bytes, Sample& sample) {
    const int calls = bytes <= (1 << 20) ? 20 : bytes <= (64 << 20) ? 5 : 1;
    const int all = kWarmup + kMeasurements;
    for (int rank = 0; rank < ranks_; ++rank) {
      const c10::cuda::CUDAStreamGuard guard(member(rank).stream);
      hold_current_stream(300'000 + std::int64_t{all} * calls * ranks_ * 6'000);
    }
    record(0);
    for (int i = 0; i < all; ++i) {
      const std::int64_t begin = steady_now_ns();
      for (int c = 0; c < calls; ++c) call(collective, bytes);
      // The host of one GPU of several processes issues for that GPU alone.
      sample.issue_values.push_back(static_cast<double>(steady_now_ns() - begin) / 1e3 / calls / ranks_);
      record(static_cast<std::size_t>(i) + 1);
    }
    synchronize();
    for (std::size_t i = 0; i < static_cast<std::size_t>(all); ++i) {
      double longest_ms = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        longest_ms = std::max<double>(longest_ms, member(rank).events[i].elapsed_time(member(rank).events[i + 1]));
      }
      sample.values.push_back(longest_ms * 1e3 / calls);
    }
  }

  /// One kernel a rank; anything else is not known.
  void trace(const NcclCollective& collective, std::int64_t bytes, Sample& sample) {
    const std::vector<TracedKernel> kernels = trace_kernels([&] {
      call(collective, bytes);
      synchronize();
    });
    if (kernels.size() != static_cast<std::size_t>(ranks_)) return;
    const auto most =
        std::max_element(kernels.begin(), kernels.end(),
                         [](const TracedKernel& a, const TracedKernel& b) { return a.blocks < b.blocks; });
    const double time_us = median({sample.values.begin() + kWarmup, sample.values.end()});
    sample.kernels.push_back({most->name, time_us, most->blocks, most->blocks_per_multiprocessor, 1});
  }

  int ranks_;
  std::vector<std::unique_ptr<Member>>& members_;
  NcclWorkers comms_;
};

void probe_cuda(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                const Progress& progress) {
  const int workers = static_cast<int>(options.gpus);
  std::vector<int> devices;
  std::vector<std::unique_ptr<Member>> members;
  for (int worker = 0; worker < workers; ++worker) {
    devices.push_back(runtime.device_index(worker));
    members.push_back(std::make_unique<Member>(devices.back()));
    torch::cuda::synchronize(devices.back());
  }
  for (int ranks = 2; ranks <= workers; ++ranks) {
    NcclGroup group({devices.begin(), devices.begin() + ranks}, members);
    double done = 0;
    for (const NcclCollective& collective : kNcclCollectives) {
      progress((ranks - 2 + done++ / std::size(kNcclCollectives)) / (workers - 1),
               std::string(collective.name) + " of " + std::to_string(ranks));
      group.probe(collective, collect);
    }
  }
  members.clear();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

#endif

}  // namespace

void probe_collectives(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                       const Progress& progress) {
  const int workers = static_cast<int>(options.gpus);
  if (workers < 2) return;
#if PDL_CUDA
  if (runtime.device == DeviceKind::cuda) {
    const std::vector<std::string>& transports = options.transports;
    if (std::find(transports.begin(), transports.end(), "nccl") != transports.end())
      probe_cuda(options, runtime, collect, progress);
    return;
  }
#else
  (void)runtime;
#endif
  probe_cpu(workers, collect, progress);
}

}  // namespace pdl
