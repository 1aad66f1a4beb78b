#include "sim/predict/step_alone.hpp"

#include <algorithm>

#include "sim/cost/host_calls.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

/// Without hosts, at fixed rates.
LengthOfRun without_hosts(const PricedWork& priced, bool by_worker) {
  LengthOfRun alone;
  alone.by_worker = by_worker;
  for (const TaskCost& cost : priced.costs) alone.device_ns.push_back(cost.device_ns);
  return alone;
}

}  // namespace

RunResult predict_step_alone(const RunSpec& asked, LayerFamilies* families,
                             std::optional<std::int64_t> memory_limit_bytes) {
  const CostProfile* profile = asked.synthetic ? nullptr : &families->profile();
  const Plan plan = make_plan(planned_spec(asked, families, memory_limit_bytes));
  RunResult result = begin_result(plan);
  const WorkspaceBytes workspaces = workspaces_of(plan, profile);
  result.workspaces = workspaces;
  result.peak_memory_bytes = predict_memory_bytes(plan, workspaces);
  check_memory(result, profile, memory_limit_bytes);

  const PricedWork priced = price_plan(plan, families);
  const bool shares = priced.shared.count > 0, overlap = steps_overlap(plan.spec);
  const bool host_issues = profile && profile->host_description.device != "cpu";
  const bool sleeps = has_work(plan, TaskKind::sleep);  // which is no share of a host: it is asked for
  LengthOfRun alone = without_hosts(priced, overlap);
  result.timeline = run_plan(plan, priced, host_issues && !shares && !sleeps ? &alone : nullptr);
  const auto whole_ns = static_cast<double>(step_ns(result.timeline, overlap));
  result.step_time.median_ms = whole_ns / 1e6;
  if (!host_issues) {
    result.host_share = 0;
  } else if (sleeps) {
    result.host_share = slow_host(plan, priced).share;
  } else if (!shares) {
    const auto alone_ns = static_cast<double>(overlap ? alone.longest_worker_ns : alone.last_end_ns);
    result.host_share = std::max(0.0, 1 - alone_ns / whole_ns);
  }
  if (profile) result.environment = environment_of(*profile);
  return result;
}

}  // namespace pdl
