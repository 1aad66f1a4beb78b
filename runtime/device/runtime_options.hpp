// How a plan is executed on this host: what the plan itself does not say.
//
//   RuntimeOptions options;                       // GPUs 0, 1, ... of this host, seed 0, SGD with 0.01
//   options.device = DeviceKind::cpu;             // the same program on CPU threads
//
// Not here: what is trained and how it is split (RunSpec, Plan).
#pragma once

#include <cstdint>
#include <vector>

namespace pdl {

enum class DeviceKind { cuda, cpu };

struct RuntimeOptions {
  DeviceKind device = DeviceKind::cuda;
  /// CUDA device index of every worker; empty: worker w has device w.
  std::vector<int> device_indices;
  /// Fixes the initial parameters and the data (runtime/model/initial_values.hpp).
  std::uint64_t seed = 0;
  /// Of SGD and of Adam; the other numbers of Adam are PyTorch's defaults.
  double learning_rate = 0.01;
  /// Measured steps, after `warmup` dropped ones.
  int steps = 30;
  int warmup = 5;
  /// Further steps, after the measured ones, in which every task is recorded.
  int recorded_steps = 5;
  /// The only worker of this process when every worker is a process of its own; -1: this process has all workers.
  int rank = -1;

  /// Where nothing moves for so long, the process ends (runtime/comm/waiting.hpp). Longer than a step.
  double wait_limit_s = 600;

  bool is_local(int worker) const { return rank < 0 || rank == worker; }
  int device_index(int worker) const { return device_indices.empty() ? worker : device_indices[worker]; }
};

}  // namespace pdl
