#include "sim/cost/hosts_of_profile.hpp"

#include <algorithm>
#include <optional>

#include "sim/io/error.hpp"

namespace pdl {

namespace {

/// Of the largest host that took part in a collective; nothing if none was measured over several hosts. Without a
/// `transport`: by any.
std::optional<std::int64_t> gpus_of_a_host(const CostProfile& profile, const std::string& transport = "") {
  bool several = false;
  std::int64_t gpus = 1;
  for (const MeasuredCurve& measured : profile.of(Probe::collective)) {
    if (!transport.empty() && measured.key.transport != transport) continue;
    several = several || measured.key.hosts > 1;
    gpus = std::max(gpus, measured.key.ranks / measured.key.hosts);
  }
  return several ? std::optional(gpus) : std::nullopt;
}

}  // namespace

std::int64_t hosts_of_profile(const CostProfile& profile, const std::string& transport, std::int64_t gpus) {
  const std::optional<std::int64_t> gpus_a_host = gpus_of_a_host(profile, transport);
  if (!gpus_a_host || gpus <= *gpus_a_host) return 1;
  if (gpus % *gpus_a_host == 0) return gpus / *gpus_a_host;
  const std::string of_a_host = std::to_string(*gpus_a_host);
  throw InputError(
      "--gpus",
      std::to_string(gpus) + " with profile " + profile.name + ", whose hosts have " + of_a_host + " GPUs each",
      "at most " + of_a_host + ", a multiple of " + of_a_host + ", or --hosts H with an equal share for each host");
}

RunSpec on_device_of(const RunSpec& spec, const Environment& host) {
  return host.device == "cpu" ? on_cpu(spec) : spec;
}

RunSpec on_hosts_of_profile(const RunSpec& spec, const CostProfile& profile) {
  if (resolve(spec).program != Program::ddp || spec.synthetic || spec.given.contains("hosts")) return spec;
  RunSpec on_hosts = spec;
  on_hosts.hosts = hosts_of_profile(profile, to_string(spec.transport), spec.gpus);
  return on_hosts;
}

std::string hosts_notice(const Plan& plan, const CostProfile& profile) {
  const RunSpec& spec = plan.spec;
  const std::optional<std::int64_t> gpus_a_host = gpus_of_a_host(profile);
  if (plan.parallel.program != Program::ddp && gpus_a_host && spec.gpus > *gpus_a_host) {
    return "all " + std::to_string(spec.gpus) + " GPUs are taken to be on one host; the hosts of profile " +
           profile.name + " have " + std::to_string(*gpus_a_host) + " GPUs each";
  }
  if (spec.hosts == 1 || spec.given.contains("hosts")) return "";
  return "hosts " + std::to_string(spec.hosts) + ": of " + std::to_string(spec.gpus / spec.hosts) +
         " GPUs each, as the hosts of profile " + profile.name + " (--hosts says otherwise)";
}

}  // namespace pdl
