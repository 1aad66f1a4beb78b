#include "sim/predict/step_of_plan.hpp"

#include <optional>

#include "sim/engine/host_delays.hpp"
#include "sim/memory/memory.hpp"
#include "sim/predict/at_power_limit.hpp"

namespace pdl {
namespace {

std::optional<std::int64_t> workspace_bytes(const CostProfile& profile, const char* name, const char* implementation) {
  for (const MemoryConstant& constant : profile.memory) {
    if (constant.key.name == name && constant.key.implementation == implementation) return constant.bytes;
  }
  return std::nullopt;
}

WorkspaceBytes workspaces(const CostProfile& profile) {
  const std::int64_t pipeline = workspace_bytes(profile, "workspace", "pipeline").value_or(0);
  return {pipeline, workspace_bytes(profile, "workspace_split", "pipeline").value_or(pipeline),
          workspace_bytes(profile, "workspace", "autograd").value_or(0), profile.host_description.multiprocessors};
}

/// By work.
std::vector<std::int64_t> compute_alone_ns(const Plan& plan, const PricedWork& priced) {
  std::vector<std::int64_t> device_ns(plan.graph.works.size(), 0);
  for (std::size_t w = 0; w < device_ns.size(); ++w) {
    if (is_compute(plan.graph.works[w].kind)) device_ns[w] = priced.costs[w].device_ns;
  }
  return device_ns;
}

}  // namespace

WorkspaceBytes workspaces_of(const Plan& plan, const CostProfile* profile) {
  return plan.spec.synthetic ? WorkspaceBytes() : workspaces(*profile);
}

PricedWork price_at_full_clock(const Plan& plan, LayerFamilies* families) {
  const RunSpec& spec = plan.spec;
  return spec.synthetic ? PricedWork{.costs = price_synthetic(plan, *spec.synthetic)}
                        : price_by_profile(plan, *families);
}

PricedWork price_plan(const Plan& plan, LayerFamilies* families, const RepeatedRuns* runs) {
  PricedWork priced = price_at_full_clock(plan, families);
  slow_down_layers(priced, slowdown_of_layers(plan, priced, runs));
  return priced;
}

bool can_repeat(const PricedWork& priced) {
  return priced.shared.count == 0 && priced.pauses.empty();
}

Timeline run_plan(const Plan& plan, const PricedWork& priced, LengthOfRun* second, const RepeatedRuns* runs) {
  Timeline timeline;
  timeline.workers = static_cast<std::int32_t>(plan.graph.workers);
  timeline.stages = static_cast<std::int32_t>(plan.stages.size());
  if (runs && can_repeat(priced)) {
    timeline.spans = runs->spans();
    timeline.step_ns = runs->run(plan.graph, priced.costs, timeline.spans, second) + priced.step_overhead_ns;
    return timeline;
  }
  const auto run = [&](std::span<const std::int64_t> delays_ns, LengthOfRun* beside) {
    timeline.step_ns = run_graph(plan.graph, priced.costs, {&priced.shared, delays_ns}, timeline.spans, beside) +
                       priced.step_overhead_ns;
  };
  run({}, second);
  // How long a host waits at the end of a step is known once there is a step, which the delays make longer. They hang
  // on it by less than a tenth (a pause ten times as long doubles them), so the second time they are right to a
  // hundredth.
  for (int pass = 0; pass < 2 && !priced.pauses.empty(); ++pass) {
    run(host_delays_ns(plan.graph, priced.costs, priced.pauses, timeline.step_ns), nullptr);
  }
  return timeline;
}

StepOfPlan step_of_plan(const Plan& plan, LayerFamilies* families, bool with_ideal, const RepeatedRuns* runs) {
  StepOfPlan step;
  step.priced = price_plan(plan, families, runs);
  if (with_ideal) step.ideal = {compute_alone_ns(plan, step.priced), steps_overlap(plan.spec)};
  step.timeline = run_plan(plan, step.priced, with_ideal ? &step.ideal : nullptr, runs);
  step.workspaces = workspaces_of(plan, plan.spec.synthetic ? nullptr : &families->profile());
  step.peak_memory_bytes = predict_memory_bytes(plan, step.workspaces);
  return step;
}

}  // namespace pdl
