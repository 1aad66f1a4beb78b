#include "calibrate/probe/transfer_probe.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/nccl_workers.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace pdl {
namespace {

constexpr std::int64_t kSmallestBytes = 1024;
constexpr std::int64_t kLargestBytes = std::int64_t{256} << 20;
constexpr int kWarmup = 1;
constexpr int kMeasurements = 9;

MeasuredKey transfer_key(const char* transport, int from, int to, std::int64_t bytes) {
  MeasuredKey key;
  key.probe = Probe::transfer;
  key.transport = transport;
  key.from = from;
  key.to = to;
  key.size = bytes;
  return key;
}

Sample transfer_sample(const char* transport, int from, int to, std::int64_t bytes) {
  Sample sample;
  sample.key = transfer_key(transport, from, to, bytes);
  sample.unit = "us";
  sample.warmup = kWarmup;
  return sample;
}

/// On CPU the sender copies into the receiver's buffer.
void probe_cpu(const ProbeOptions& options, const Collect& collect) {
  for (int from = 0; from < options.gpus; ++from) {
    for (int to = 0; to < options.gpus; ++to) {
      if (from == to) continue;
      for (std::int64_t bytes = kSmallestBytes; bytes <= kLargestBytes / 4; bytes *= 4) {
        const at::Tensor source = at::ones({bytes}, at::kByte);
        at::Tensor target = at::zeros({bytes}, at::kByte);
        Sample sample = transfer_sample("copy", from, to, bytes);
        const Timed timed =
            DeviceTimer(c10::Device(c10::kCPU)).time([&] { target.copy_(source); }, {.seconds = 0.003, .kernels = 1});
        sample.warmup = timed.warmup;
        for (const double ns : timed.device_ns) sample.values.push_back(ns / 1e3);
        sample.issue_values = sample.values;  // the host is the device
        collect(std::move(sample));
      }
    }
  }
}

#if PDL_CUDA

/// A stream on a device, and an event to tie it to others.
struct Lane {
  c10::cuda::CUDAStream stream;
  at::cuda::CUDAEvent event{cudaEventDisableTiming};
  explicit Lane(int device) : stream(c10::cuda::getStreamFromPool(true, static_cast<c10::DeviceIndex>(device))) {}
  void wait_for(Lane& other) {
    other.event.record(other.stream);
    event_wait(other);
  }
  void event_wait(Lane& other) { other.event.block(stream); }
};

/// What the host and the devices need for one pair.
struct Pair {
  int from, to;
  Lane from_compute, send, receive, to_compute;
  at::Tensor source, target;
  Pair(int from_device, int to_device)
      : from(from_device),
        to(to_device),
        from_compute(from_device),
        send(from_device),
        receive(to_device),
        to_compute(to_device) {
    const auto bytes = [](int device) {
      return at::TensorOptions().dtype(at::kByte).device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)));
    };
    source = at::ones({kLargestBytes}, bytes(from));
    target = at::zeros({kLargestBytes}, bytes(to));
    enable_peer_access(from, to);
    enable_peer_access(to, from);
  }
  static void enable_peer_access(int device, int peer) {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();
    else if (error != cudaErrorPeerAccessUnsupported)
      check_cuda(error, "cudaDeviceEnablePeerAccess");
  }
};

/// One way of moving bytes from `pair.send` (or the receive lane) so that `to_compute` can go on.
using Hop = std::function<void(Pair&, std::int64_t bytes)>;

void copy_hop(Pair& pair, std::int64_t bytes) {
  pair.send.wait_for(pair.from_compute);
  check_cuda(cudaMemcpyPeerAsync(pair.target.data_ptr(), pair.to, pair.source.data_ptr(), pair.from,
                                 static_cast<std::size_t>(bytes), pair.send.stream),
             "cudaMemcpyPeerAsync");
  pair.to_compute.wait_for(pair.send);
}

/// Time of one round trip of a chain of `trips`, and of its issue by the host for the hop alone.
struct Chain {
  double trip_us;
  double issue_us;
};

Chain run_chain(Pair& pair, const Hop& hop, std::int64_t bytes, int trips) {
  at::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
  const c10::cuda::CUDAStreamGuard guard(pair.from_compute.stream);
  hold_current_stream(200'000 + std::int64_t{trips} * 60'000);
  begin.record(pair.from_compute.stream);
  double issue_ns = 0;
  for (int i = 0; i < trips; ++i) {
    const std::int64_t start = steady_now_ns();
    hop(pair, bytes);
    issue_ns += static_cast<double>(steady_now_ns() - start);
    pair.from_compute.wait_for(pair.to_compute);
  }
  end.record(pair.from_compute.stream);
  pair.from_compute.stream.synchronize();
  return {static_cast<double>(begin.elapsed_time(end)) * 1e3 / trips, issue_ns / 1e3 / trips};
}

void probe_pair(Pair& pair, const char* transport, const Hop& hop, int from_worker, int to_worker,
                const Collect& collect, std::vector<double>& issue_us) {
  const Hop event_only = [](Pair& p, std::int64_t) { p.to_compute.wait_for(p.from_compute); };
  run_chain(pair, event_only, 0, 20);
  const double return_us = run_chain(pair, event_only, 0, 20).trip_us / 2;
  for (std::int64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 2) {
    Sample sample = transfer_sample(transport, from_worker, to_worker, bytes);
    const int trips = bytes <= (16 << 20) ? 20 : 4;
    for (int i = 0; i < kWarmup + kMeasurements; ++i) {
      Waiting::renew();
      const Chain chain = run_chain(pair, hop, bytes, trips);
      sample.values.push_back(chain.trip_us - return_us);
      if (bytes == kSmallestBytes && i >= kWarmup) issue_us.push_back(chain.issue_us);
    }
    collect(std::move(sample));
  }
}

void probe_cuda(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                const Progress& progress) {
  const int workers = static_cast<int>(options.gpus);
  std::vector<int> devices;
  for (int worker = 0; worker < workers; ++worker) devices.push_back(runtime.device_index(worker));
  const bool nccl =
      std::find(options.transports.begin(), options.transports.end(), "nccl") != options.transports.end() &&
      workers > 1;
  std::vector<double> copy_issue_us, nccl_issue_us;
  int done = 0;
  for (int from = 0; from < workers; ++from) {
    for (int to = 0; to < workers; ++to) {
      if (from == to) continue;
      progress(static_cast<double>(done++) / (workers * (workers - 1)),
               "transfers " + std::to_string(from) + " to " + std::to_string(to));
      Pair pair(devices[static_cast<std::size_t>(from)], devices[static_cast<std::size_t>(to)]);
      probe_pair(pair, "copy", copy_hop, from, to, collect, copy_issue_us);
      if (!nccl) continue;
      // Of these two alone, as a pipeline's channels are (runtime/comm/nccl_pairs.hpp): with more ranks NCCL gives each
      // message fewer channels (2.28, enqueue.cc), and 64 MiB take a third longer.
      const NcclWorkers comms({devices[static_cast<std::size_t>(from)], devices[static_cast<std::size_t>(to)]});
      const Hop nccl_hop = [&](Pair& p, std::int64_t bytes) {
        p.send.wait_for(p.from_compute);
        check_nccl(ncclGroupStart(), "ncclGroupStart");
        check_nccl(
            ncclSend(p.source.data_ptr(), static_cast<std::size_t>(bytes), ncclUint8, 1, comms.of(0), p.send.stream),
            "ncclSend");
        check_nccl(
            ncclRecv(p.target.data_ptr(), static_cast<std::size_t>(bytes), ncclUint8, 0, comms.of(1), p.receive.stream),
            "ncclRecv");
        check_nccl(ncclGroupEnd(), "ncclGroupEnd");
        p.to_compute.wait_for(p.receive);
      };
      probe_pair(pair, "nccl", nccl_hop, from, to, collect, nccl_issue_us);
    }
  }
  for (const auto& [transport, values] : {std::pair{"copy", copy_issue_us}, std::pair{"nccl", nccl_issue_us}}) {
    if (values.empty()) continue;
    Sample sample;
    sample.key.probe = Probe::host;
    sample.key.name = "transfer_issue";
    sample.key.transport = transport;
    sample.unit = "us";
    sample.values = values;
    sample.warmup = 1;
    collect(std::move(sample));
  }
}

#endif

}  // namespace

void probe_transfers(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                     const Progress& progress) {
#if PDL_CUDA
  if (runtime.device == DeviceKind::cuda) return probe_cuda(options, runtime, collect, progress);
#else
  (void)progress;
  (void)runtime;
#endif
  probe_cpu(options, collect);
}

}  // namespace pdl
