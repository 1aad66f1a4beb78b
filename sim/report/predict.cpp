#include "sim/report/predict.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/price.hpp"
#include "sim/engine/run.hpp"
#include "sim/report/memory.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/number_text.hpp"
#include "sim/spec/error.hpp"

namespace pdl {
namespace {

std::int64_t workspace_bytes(const CostProfile& profile, const char* implementation) {
  for (const MemoryConstant& constant : profile.memory) {
    if (constant.key.name == "workspace" && constant.key.implementation == implementation) return constant.bytes;
  }
  return 0;
}

nlohmann::json describe_profile(const CostProfile& profile) {
  const Environment& host = profile.host_description;
  return {{"profile",
           {{"name", profile.name},
            {"device", host.device},
            {"card", host.card},
            {"count", host.count},
            {"date", host.date}}}};
}

void check_capacity(const RunResult& result, std::int64_t capacity_bytes) {
  if (capacity_bytes <= 0) return;
  const auto largest = std::max_element(result.peak_memory_bytes.begin(), result.peak_memory_bytes.end());
  if (largest == result.peak_memory_bytes.end() || *largest <= capacity_bytes) return;
  throw CannotRun("out of memory: GPU " + std::to_string(largest - result.peak_memory_bytes.begin()) + " needs " +
                  binary_bytes(*largest) + ", its card has " + binary_bytes(capacity_bytes) + " (" +
                  describe(result.spec) + ")");
}

}  // namespace

RunResult predict(const RunSpec& spec, const CostProfile* profile) {
  if (!spec.synthetic && !profile) throw std::logic_error("a prediction needs a profile or synthetic costs");
  const Plan plan = make_plan(spec);
  RunResult result = begin_result(plan);
  const PricedWork priced =
      spec.synthetic ? PricedWork{price_synthetic(plan, *spec.synthetic), {}, 0} : price(plan, *profile);
  result.warnings.insert(result.warnings.end(), priced.warnings.begin(), priced.warnings.end());
  result.timeline =
      make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()), run(plan.graph, priced.costs));
  result.timeline.step_ns += priced.step_overhead_ns;
  result.step_time.median_ms = static_cast<double>(step_ns(result)) / 1e6;
  const bool profiled = !spec.synthetic;
  const WorkspaceBytes workspace =
      profiled ? WorkspaceBytes{workspace_bytes(*profile, "pipeline"), workspace_bytes(*profile, "autograd")}
               : WorkspaceBytes{};
  result.peak_memory_bytes = predict_memory_bytes(plan, workspace);
  if (profiled) {
    result.environment = describe_profile(*profile);
    check_capacity(result, profile->host_description.memory_capacity_bytes);
  }
  return result;
}

}  // namespace pdl
