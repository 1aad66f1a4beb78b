#include "sim/cost/host_times.hpp"

#include <cmath>

#include "sim/cost/measured_key.hpp"

namespace pdl {

double HostTimes::of(const std::string& name, const HostKey& wanted, bool needed,
                     const std::function<std::int64_t()>& calls) {
  const HostTime* found = nullptr;
  const auto distance = [&](const HostTime& host) {
    const MeasuredKey& key = host.key;
    double far = 0;
    if (key.implementation != implementation_) far += key.implementation.empty() ? 1e3 : 1e6;
    if (key.transport != wanted.transport) far += key.transport.empty() ? 1e3 : 1e6;
    if (wanted.workers > 0 && key.workers != wanted.workers) {
      far += key.workers == 0
                 ? 100
                 : std::abs(std::log(static_cast<double>(key.workers) / static_cast<double>(wanted.workers)));
    }
    return far;
  };
  for (const HostTime& host : profile_.host) {
    if (host.key.name == name && (!found || distance(host) < distance(*found))) found = &host;
  }
  if (!found) {
    if (needed) missing_.push_back(name);
    return 0;
  }
  const bool other_workers = wanted.workers > 0 && found->key.workers > 0 && found->key.workers != wanted.workers;
  if (distance(*found) >= 1e6 || other_workers) {
    notices_.say_host_substitute(profile_.name,
                                 "host " + name + " " + implementation_ +
                                     (wanted.transport.empty() ? "" : " " + wanted.transport) +
                                     (wanted.workers > 0 ? " " + std::to_string(wanted.workers) + " workers" : ""),
                                 describe(found->key), found->time_ns.at(quantile_) * static_cast<double>(calls()));
  }
  return found->time_ns.at(quantile_);
}

void HostTimes::say_missing() const {
  std::string names;
  for (const std::string& name : missing_) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty())
    notices_.say("not in profile " + profile_.name + ": host " + names +
                 "; taken as no time (pdl-calibrate measures it)");
}

}  // namespace pdl
