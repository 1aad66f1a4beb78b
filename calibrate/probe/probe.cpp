#include "calibrate/probe/probe.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "calibrate/probe/collective_probe.hpp"
#include "calibrate/probe/compute_operations.hpp"
#include "calibrate/probe/data_parallel_host_probe.hpp"
#include "calibrate/probe/host_probe.hpp"
#include "calibrate/probe/layer_probe.hpp"
#include "calibrate/probe/overlap_probe.hpp"
#include "calibrate/probe/pace.hpp"
#include "calibrate/probe/pause_probe.hpp"
#include "calibrate/probe/transfer_probe.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/measure/span_recorder.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

/// Fills in what the user left open, for this host.
ProbeOptions resolve(ProbeOptions options) {
  const bool cuda = options.device == "cuda";
  if (!cuda && options.device != "cpu") throw InputError("--device", options.device, "cuda or cpu");
  const std::int64_t found = cuda ? static_cast<std::int64_t>(torch::cuda::device_count()) : 64;
  if (cuda && found == 0) throw InputError("--device", "cuda on a host without a visible GPU", "cpu, or a host with GPUs");
  if (options.gpus == 0) options.gpus = cuda ? found : 2;
  if (options.gpus < 1 || options.gpus > found) {
    throw InputError("--gpus", std::to_string(options.gpus), "1 to " + std::to_string(found) + (cuda ? ", the GPUs of this host" : ""));
  }
  const auto set = [](auto& list, auto values) {
    if (list.empty()) list = values;
  };
  using Numbers = std::vector<std::int64_t>;
  if (options.tensor_core_dims.empty()) options.tensor_core_dims = options.dims.empty() && cuda ? Numbers{1024, 4096, 8192} : options.dims;
  if (options.rows.empty() && cuda && options.least_pipeline_rows == 0) options.least_pipeline_rows = 32;
  set(options.dims, cuda ? Numbers{1024, 2048, 4096, 8192} : Numbers{64, 128, 256, 512});
  set(options.rows, cuda ? Numbers{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096} : Numbers{4, 8, 16, 32, 64});
  if (options.tensor_core_dims.empty()) options.tensor_core_dims = options.dims;
  set(options.dtypes, cuda ? std::vector<std::string>{"fp32", "tf32", "amp-fp16", "amp-bf16"} : std::vector<std::string>{"fp32"});
  set(options.optimizers, std::vector<std::string>{"sgd", "adam"});
  set(options.transports, cuda ? std::vector<std::string>{"copy", "nccl"} : std::vector<std::string>{"copy", "gloo"});
  for (std::size_t i = 0; i < options.dtypes.size(); ++i) {
    if (dtype_of(options.dtypes[i]) == Dtype::tf32 && !cuda) throw InputError("--dtypes", "tf32 on CPU", "fp32: TF32 is a format of GPUs");
    if (std::count(options.dtypes.begin(), options.dtypes.end(), options.dtypes[i]) > 1) throw InputError("--dtypes", options.dtypes[i] + " twice", "each once");
  }
  for (const std::string& transport : options.transports) {
    if (transport != "copy" && transport != (cuda ? "nccl" : "gloo")) {
      throw InputError("--transports", transport, cuda ? "copy or nccl" : "copy or gloo");
    }
  }
  std::sort(options.dims.begin(), options.dims.end());
  std::sort(options.rows.begin(), options.rows.end());
  std::sort(options.tensor_core_dims.begin(), options.tensor_core_dims.end());
  return options;
}

/// How far the probes are, and how much time they have.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds) : begin_ns_(steady_now_ns()), limit_s_(seconds) {}

  void done(double fraction) { fraction_ = fraction; }

  double pace() const { return pdl::pace(static_cast<double>(steady_now_ns() - begin_ns_) / 1e9, limit_s_, fraction_); }

 private:
  std::int64_t begin_ns_;
  double limit_s_;
  std::atomic<double> fraction_ = 0;
};

}  // namespace

Samples probe(const ProbeOptions& given) {
  const ProbeOptions options = resolve(given);
  RuntimeOptions runtime;
  runtime.device = options.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  runtime.seed = options.seed;
  runtime.learning_rate = 0;  // what is trained here stays what it is
  if (runtime.device == DeviceKind::cpu) at::set_num_threads(1);
  at::globalContext().setAllowTF32CuBLAS(false);
  if (runtime.device == DeviceKind::cuda) {
    // The first tensor of a device sets up its context and the allocator that the probes read.
    for (int worker = 0; worker < options.gpus; ++worker) {
      at::empty({1}, at::TensorOptions().device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(runtime.device_index(worker)))));
    }
  }

  Samples samples;
  samples.environment = describe_environment(runtime, static_cast<int>(options.gpus), options.command);
  if (nlohmann::json gpus = describe_gpus(runtime, static_cast<int>(options.gpus)); !gpus.empty()) samples.environment["gpus"] = std::move(gpus);
  const Collect collect = [&](Sample sample) { samples.samples.push_back(std::move(sample)); };
  TimeLimit limit(options.max_seconds);
  const auto part = [&](double from, double to) {
    return Progress([&, from, to](double fraction, const std::string& what) {
      limit.done(from + (to - from) * fraction);
      if (options.progress) options.progress(from + (to - from) * fraction, what);
    });
  };
  const auto timed = [&](const char* name, const std::function<void()>& probe) {
    const std::int64_t begin_ns = steady_now_ns();
    probe();
    samples.environment["probe_seconds"][name] = std::round(static_cast<double>(steady_now_ns() - begin_ns) / 1e8) / 10;
  };
  timed("host", [&] { probe_host(options, runtime, collect, part(0, 0.02)); });
  timed("data_parallel_host", [&] { probe_data_parallel_host(options, runtime, collect, part(0.02, 0.04)); });
  timed("pauses", [&] { probe_pauses(options, runtime, collect, part(0.04, 0.08)); });
  timed("transfers", [&] { probe_transfers(options, runtime, collect, part(0.08, 0.15)); });
  timed("collectives", [&] { probe_collectives(options, runtime, collect, part(0.15, 0.22)); });
  timed("compute", [&] { probe_compute(options, runtime, collect, part(0.22, 0.97), [&] { return limit.pace(); }); });
  timed("overlap", [&] { probe_overlap(options, runtime, collect, part(0.97, 1)); });
  return samples;
}

}  // namespace pdl
