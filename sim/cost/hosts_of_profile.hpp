// Hosts that the GPUs of DDP are on where nobody says how many: hosts with as many GPUs as those that the profile was
// measured on.
//
//   profile cl: all_reduce of 4 GPUs on one host, of 16 GPUs on 2 hosts      8 GPUs a host
//   --gpus  5   1 host
//   --gpus 24   3 hosts, "hosts 3: of 8 GPUs each, as the hosts of profile cl (--hosts says otherwise)"
//   --gpus 16 --pp 2 --dp 8   "all 16 GPUs are taken to be on one host; the hosts of profile cl have 8 GPUs each"
//   --gpus 13   refused: one host is too small, and 2 hosts do not have equal shares
//
// Left out: hosts with different numbers of GPUs, and pipelines, whose replicas are on one host.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cost/cost_profile.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// 1 if no collective by this transport was measured over several hosts: one host, however large. Throws InputError
/// that names both numbers and --hosts if there are more GPUs than a host of the profile has, and no multiple of that.
std::int64_t hosts_of_profile(const CostProfile& profile, const std::string& transport, std::int64_t gpus);

/// The spec as it is, but on_cpu() where the host that was measured has no GPUs ("cpu").
RunSpec on_device_of(const RunSpec& spec, const Environment& host);

/// The spec as it is, but for DDP without hosts of the user's (RunSpec::given) and without textbook costs: that
/// one on hosts_of_profile().
RunSpec on_hosts_of_profile(const RunSpec& spec, const CostProfile& profile);

/// What to say of a plan that is on several hosts by the profile alone, or that is not DDP, so on one host, and has
/// more GPUs than a host of the profile; empty for every other.
std::string hosts_notice(const Plan& plan, const CostProfile& profile);

}  // namespace pdl
