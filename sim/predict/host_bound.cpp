#include "sim/predict/host_bound.hpp"

#include <algorithm>

#include "sim/io/words.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

double step_of(const Plan& plan, const PricedWork& priced, LengthOfRun* second = nullptr,
               const RepeatedRuns* runs = nullptr) {
  if (runs && can_repeat(priced) && !steps_overlap(plan.spec))  // of which only the last end is asked
    return static_cast<double>(runs->run(plan.graph, priced.costs, {}, second) + priced.step_overhead_ns);
  return static_cast<double>(step_ns(run_plan(plan, priced, second, runs), steps_overlap(plan.spec)));
}

}  // namespace

PricedWork without_host(const Plan& plan, PricedWork priced) {
  for (std::size_t w = 0; w < priced.costs.size(); ++w) {
    if (plan.graph.works[w].kind != TaskKind::sleep) priced.costs[w] = device_only(priced.costs[w].device_ns);
  }
  for (std::vector<KernelCost>& kernels : priced.shared.kernels) {
    for (KernelCost& kernel : kernels) kernel.issue_ns = 0;
  }
  priced.shared.launch_latency_ns = 0;
  priced.step_overhead_ns = 0;
  priced.pauses = {};
  return priced;
}

SlowHost slow_host(const Plan& plan, const PricedWork& priced, const RepeatedRuns* runs) {
  PricedWork awake = priced;
  bool sleeps = false;
  for (std::size_t w = 0; w < awake.costs.size(); ++w) {
    if (plan.graph.works[w].kind != TaskKind::sleep) continue;
    awake.costs[w] = {};
    sleeps = true;
  }
  const bool overlap = steps_overlap(plan.spec), shares = awake.shared.count > 0;
  LengthOfRun alone;  // where nothing is shared, the step without its host runs beside the one with it
  alone.by_worker = overlap;
  for (const TaskCost& cost : awake.costs) alone.device_ns.push_back(cost.device_ns);
  const double awake_ns = step_of(plan, awake, shares ? nullptr : &alone, runs);
  const double alone_ns = shares ? step_of(plan, without_host(plan, awake))
                                 : static_cast<double>(overlap ? alone.longest_worker_ns : alone.last_end_ns);
  return {std::max(0.0, 1 - alone_ns / awake_ns), sleeps ? step_of(plan, priced, nullptr, runs) : awake_ns};
}

std::string host_bound_warning() {
  return std::string(kHostBoundWarning) + ": where it is slow, more than " + to_text(100 * kHostBoundShare) +
         " % of the step is the time that it takes to issue the work, not work of the GPUs. Such steps vary from run "
         "to run, and predictions of them are off by tens of per cent, those of DataParallel's threads by more than "
         "half (docs/accuracy.md)";
}

}  // namespace pdl
