#include "sim/predict/step_of_plan.hpp"

#include <optional>

#include "sim/engine/host_delays.hpp"
#include "sim/engine/run.hpp"
#include "sim/memory/memory.hpp"

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

}  // namespace

WorkspaceBytes workspaces_of(const Plan& plan, const CostProfile* profile) {
  return plan.spec.synthetic ? WorkspaceBytes() : workspaces(*profile);
}

PricedWork price_plan(const Plan& plan, const CostProfile* profile) {
  const RunSpec& spec = plan.spec;
  return spec.synthetic ? PricedWork{.costs = price_synthetic(plan, *spec.synthetic)}
                        : price_by_profile(plan, *profile);
}

Timeline run_plan(const Plan& plan, const PricedWork& priced) {
  const auto timeline_of = [&](const std::vector<std::int64_t>& delays_ns) {
    Timeline timeline = make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()),
                                      run_graph(plan.graph, priced.costs, &priced.shared, delays_ns));
    timeline.step_ns += priced.step_overhead_ns;
    return timeline;
  };
  Timeline timeline = timeline_of({});
  // How long a host waits at the end of a step is known once there is a step, which the delays make longer. They hang
  // on it by less than a tenth (a pause ten times as long doubles them), so the second time they are right to a
  // hundredth.
  for (int pass = 0; pass < 2 && !priced.pauses.empty(); ++pass) {
    timeline = timeline_of(host_delays_ns(plan.graph, priced.costs, priced.pauses, timeline.step_ns));
  }
  return timeline;
}

StepOfPlan step_of_plan(const Plan& plan, const CostProfile* profile) {
  StepOfPlan step;
  step.priced = price_plan(plan, profile);
  step.timeline = run_plan(plan, step.priced);
  step.workspaces = workspaces_of(plan, profile);
  step.peak_memory_bytes = predict_memory_bytes(plan, step.workspaces);
  return step;
}

}  // namespace pdl
