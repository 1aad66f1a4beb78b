#include "sim/predict/at_power_limit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

/// What one GPU has to do in a step.
struct OfGpu {
  double flops = 0;
  double layers_ns = 0;
  double device_ns = 0;
};

OfGpu of_busiest_gpu(const Plan& plan, const PricedWork& priced) {
  std::vector<OfGpu> gpus(plan.graph.workers);
  for (const Task& task : plan.graph.tasks) {
    OfGpu& gpu = gpus[static_cast<std::size_t>(task.worker)];
    gpu.flops += priced.limited[task.work].flops;
    gpu.layers_ns += priced.limited[task.work].device_ns;
    if (is_compute(task.kind)) gpu.device_ns += static_cast<double>(priced.costs[task.work].device_ns);
  }
  return *std::max_element(gpus.begin(), gpus.end(), [](const OfGpu& a, const OfGpu& b) { return a.flops < b.flops; });
}

std::int64_t scaled_ns(std::int64_t ns, double by) {
  return std::llround(static_cast<double>(ns) * by);
}

}  // namespace

double slowdown_of_layers(const Plan& plan, const PricedWork& at_full_clock, const RepeatedRuns* runs) {
  const std::optional<double> limit = at_full_clock.power_limit.flops_per_s();
  if (!limit || plan.graph.tasks.empty()) return 1;
  const OfGpu gpu = of_busiest_gpu(plan, at_full_clock);
  if (gpu.flops <= *limit * gpu.device_ns * 1e-9) return 1;  // not even without a pause
  const auto step =
      static_cast<double>(step_ns(run_plan(plan, at_full_clock, nullptr, runs), steps_overlap(plan.spec)));
  return at_full_clock.power_limit.slowdown(gpu.flops / (step * 1e-9), std::min(1.0, gpu.layers_ns / step));
}

void slow_down_layers(PricedWork& priced, double slowdown) {
  priced.slowdown = slowdown;
  if (slowdown == 1) return;
  for (KindTime& time : priced.kinds_ns) {
    if (time.kind && time.kind->scaling != LayerScaling::row_wise) time.device_ns *= slowdown;
  }
  for (std::size_t w = 0; w < priced.costs.size(); ++w) {
    TaskCost& cost = priced.costs[w];
    if (cost.device_ns == 0 || priced.limited[w].device_ns == 0) continue;
    const std::int64_t more_ns = std::llround((slowdown - 1) * priced.limited[w].device_ns);
    const double by = 1 + static_cast<double>(more_ns) / static_cast<double>(cost.device_ns);
    cost.device_ns += more_ns;
    cost.span_ns += more_ns;
    if (priced.shared.kernels.empty()) continue;
    for (KernelCost& kernel : priced.shared.kernels[w]) kernel.device_ns = scaled_ns(kernel.device_ns, by);
  }
}

}  // namespace pdl
