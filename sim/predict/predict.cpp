#include "sim/predict/predict.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/engine/host_delays.hpp"
#include "sim/engine/run.hpp"
#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/memory/memory.hpp"
#include "sim/predict/find_order.hpp"

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

nlohmann::json describe_profile(const CostProfile& profile) {
  const Environment& host = profile.host_description;
  nlohmann::json described = {
      {"name", profile.name}, {"device", host.device}, {"card", host.card}, {"count", host.count}, {"date", host.date}};
  if (!profile.chosen_as.empty()) described["chosen_as"] = profile.chosen_as;
  return {{"profile", described}};
}

void check_capacity(const RunResult& result, std::int64_t capacity_bytes, const char* whose) {
  if (capacity_bytes <= 0) return;
  const auto largest = std::max_element(result.peak_memory_bytes.begin(), result.peak_memory_bytes.end());
  if (largest == result.peak_memory_bytes.end() || *largest <= capacity_bytes) return;
  throw CannotRun("out of memory: GPU " + std::to_string(largest - result.peak_memory_bytes.begin()) + " needs " +
                  binary_bytes(*largest) + ", " + whose + " " + binary_bytes(capacity_bytes) + " (" +
                  describe(result.spec) + ")");
}

double bound_ms(const Plan& plan, const PricedWork& priced) {
  std::vector<TaskCost> costs;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    costs.push_back(device_only(is_compute(plan.graph.works[w].kind) ? priced.costs[w].device_ns : 0));
  }
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  return static_cast<double>(
             step_ns(make_timeline(plan.graph, stages, run(plan.graph, costs)), steps_overlap(plan.spec))) /
         1e6;
}

}  // namespace

PricedWork price_plan(const Plan& plan, const CostProfile* profile) {
  const RunSpec& spec = plan.spec;
  return spec.synthetic ? PricedWork{.costs = price_synthetic(plan, *spec.synthetic)} : price(plan, *profile);
}

Timeline run_step(const Plan& plan, const PricedWork& priced) {
  const auto timeline_of = [&](const std::vector<std::int64_t>& delays_ns) {
    Timeline timeline = make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()),
                                      run(plan.graph, priced.costs, &priced.shared, delays_ns));
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

PlannedStep plan_step(const Plan& plan, const CostProfile* profile) {
  PlannedStep step;
  step.priced = price_plan(plan, profile);
  step.timeline = run_step(plan, step.priced);
  step.peak_memory_bytes = predict_memory_bytes(plan, plan.spec.synthetic ? WorkspaceBytes{} : workspaces(*profile));
  return step;
}

Plan plan_of(const RunSpec& spec, const CostProfile* profile, std::optional<std::int64_t> memory_limit_bytes) {
  if (!spec.synthetic && !profile) throw std::logic_error("a prediction needs a profile or synthetic costs");
  if (needs_search(spec)) return make_plan(with_found_order(spec, profile, memory_limit_bytes));
  return make_plan(spec.synthetic ? spec : on_hosts_of_profile(spec, *profile));
}

RunResult predict(const RunSpec& spec, const CostProfile* profile, std::optional<std::int64_t> memory_limit_bytes) {
  return predict(plan_of(spec, profile, memory_limit_bytes), profile, memory_limit_bytes);
}

RunResult predict(const Plan& plan, const CostProfile* profile, std::optional<std::int64_t> memory_limit_bytes) {
  const RunSpec& spec = plan.spec;
  if (!spec.synthetic && !profile) throw std::logic_error("a prediction needs a profile or synthetic costs");
  RunResult result = begin_result(plan);
  PlannedStep step = plan_step(plan, profile);
  result.warnings.insert(result.warnings.end(), step.priced.warnings.begin(), step.priced.warnings.end());
  if (spec.loss_scale != RunSpec().loss_scale) {
    result.warnings.push_back("loss-scale " + to_text(spec.loss_scale) +
                              ": steps that GradScaler skips are not predicted; this is a step that it does not skip, "
                              "the same for every scale");
  }
  result.timeline = std::move(step.timeline);
  result.step_time.median_ms = static_cast<double>(step_ns(result.timeline, steps_overlap(spec))) / 1e6;
  result.bound_ms = bound_ms(plan, step.priced);
  result.peak_memory_bytes = std::move(step.peak_memory_bytes);
  if (!spec.synthetic) {
    result.environment = describe_profile(*profile);
    if (!memory_limit_bytes) check_capacity(result, profile->host_description.memory_capacity_bytes, "its card has");
  }
  if (memory_limit_bytes) check_capacity(result, *memory_limit_bytes, "--memory allows");
  return result;
}

}  // namespace pdl
