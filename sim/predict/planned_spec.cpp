#include "sim/predict/planned_spec.hpp"

#include <algorithm>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/number_text.hpp"
#include "sim/predict/auto_split.hpp"
#include "sim/predict/find_order.hpp"

namespace pdl {
namespace {

void check_capacity(const RunResult& result, std::int64_t capacity_bytes, const char* whose) {
  if (capacity_bytes <= 0) return;
  const auto largest = std::max_element(result.peak_memory_bytes.begin(), result.peak_memory_bytes.end());
  if (largest == result.peak_memory_bytes.end() || *largest <= capacity_bytes) return;
  throw OutOfMemory("out of memory: GPU " + std::to_string(largest - result.peak_memory_bytes.begin()) + " needs " +
                        binary_bytes(*largest) + ", " + whose + " " + binary_bytes(capacity_bytes) + " (" +
                        describe(result.spec) + ")",
                    *largest);
}

}  // namespace

RunSpec planned_spec(const RunSpec& asked, LayerFamilies* families, std::optional<std::int64_t> memory_limit_bytes) {
  const CostProfile* profile = asked.synthetic ? nullptr : &families->profile();
  RunSpec spec = asked.synthetic ? asked : on_device_of(asked, profile->host_description);
  if (needs_split(spec)) spec = with_found_split(spec, families);
  if (needs_search(spec)) return with_found_order(spec, families, memory_limit_bytes);
  return spec.synthetic ? spec : on_hosts_of_profile(spec, *profile);
}

void check_memory(const RunResult& result, const CostProfile* profile, std::optional<std::int64_t> limit_bytes) {
  if (limit_bytes) {
    check_capacity(result, *limit_bytes, "--memory allows");
  } else if (!result.spec.synthetic) {
    check_capacity(result, profile->host_description.memory_capacity_bytes, "its GPU has");
  }
}

nlohmann::json environment_of(const CostProfile& profile) {
  const Environment& host = profile.host_description;
  nlohmann::json described = {
      {"name", profile.name}, {"device", host.device}, {"card", host.card}, {"count", host.count}, {"date", host.date}};
  if (!profile.chosen_as.empty()) described["chosen_as"] = profile.chosen_as;
  return {{"profile", described}};
}

}  // namespace pdl
