// The kernels of one piece of work while it is being priced: what it costs as a whole, and one by one.
//
//   KernelList kernels;
//   kernels.add(layers.at(key).front());      // an operation that was measured, split over its kernels
//   kernels.cost(launch_latency_ns)           // four numbers (sim/cost/task_cost.hpp)
//   kernels.kernels()                         // with their thread blocks, for kernels that share multiprocessors
//
// Units: nanoseconds, rounded so that sums stay right to half of one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/task_cost.hpp"

namespace pdl {

constexpr double kLongestStep_ns = 4e18;  // 126 years: the engine adds up 64-bit nanoseconds

class KernelList {
 public:
  KernelList() {
    constexpr std::size_t kMostly = 8;  // kernels of a layer, an optimizer
    for (std::vector<std::int64_t>* parts : {&device_.parts_ns, &issue_.parts_ns}) parts->reserve(kMostly);
    kernels_.reserve(kMostly);
  }

  /// As a new one, in the memory that it has.
  void clear() {
    device_.clear();
    issue_.clear();
    kernels_.clear();
    slows_collectives_ = 0;
  }

  void add(const OperationTime& operation) {
    double recorded_ns = 0;
    double launches = 0;
    for (const Kernel& kernel : *operation.kernels) {
      recorded_ns += kernel.time_ns * static_cast<double>(kernel.count);
      launches += static_cast<double>(kernel.count);
    }
    if (launches == 0) return add_kernel(operation.device_ns, operation.issue_ns);
    for (const Kernel& kernel : *operation.kernels) {
      const double share = kernel.time_ns / recorded_ns;
      for (std::int64_t launch = 0; launch < kernel.count; ++launch) {
        add_kernel(operation.device_ns * share, operation.issue_ns / launches, &kernel);
      }
    }
  }

  /// Kernels added from here on slow a collective beside them by so much.
  void slows_collectives(double by) { slows_collectives_ = by; }

  /// One kernel that holds so many multiprocessors.
  void add_collective(double device_ns, double issue_ns, std::int64_t multiprocessors) {
    add_kernel(device_ns, issue_ns);
    kernels_.back().blocks = multiprocessors;
  }

  const std::vector<KernelCost>& kernels() const { return kernels_; }

  /// `launch_latency_ns`: from the launch of a kernel to its start on an idle stream.
  TaskCost cost(std::int64_t launch_latency_ns) const {
    TaskCost cost = collapse(issue_.parts_ns, device_.parts_ns);
    cost.first_launch_ns += launch_latency_ns;
    cost.span_ns += launch_latency_ns;
    return cost;
  }

  /// On CPU the host is the device: it is occupied until the work is done.
  TaskCost cost_on_host() const {
    const std::int64_t ns = cost(0).device_ns;
    return {ns, ns, 0, ns};
  }

 private:
  struct Sum {
    double exact_ns = 0;
    std::int64_t given_ns = 0;
    std::vector<std::int64_t> parts_ns;

    void add(double ns) {
      exact_ns += ns;
      parts_ns.push_back(std::llround(std::min(exact_ns, kLongestStep_ns)) - given_ns);
      given_ns += parts_ns.back();
    }

    void clear() {
      exact_ns = 0;
      given_ns = 0;
      parts_ns.clear();
    }
  };

  void add_kernel(double device_ns, double issue_ns, const Kernel* kernel = nullptr) {
    device_.add(device_ns);
    issue_.add(issue_ns);
    kernels_.push_back({issue_.parts_ns.back(), device_.parts_ns.back(), kernel ? kernel->blocks : 0,
                        kernel ? kernel->blocks_per_multiprocessor : 0, slows_collectives_});
  }

  Sum device_;
  Sum issue_;
  std::vector<KernelCost> kernels_;
  double slows_collectives_ = 0;
};

}  // namespace pdl
