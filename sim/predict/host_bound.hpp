// Is a step bound by the host that issues it, or by the GPUs? From the prediction alone: nothing measured enters.
//
//   host share = 1 - (step if the host took no time) / step
//
// The step is that of a slow host, the 95th percentile of what the host took in the probes: a step that is as long as
// GPUs need with a usual host and longer with a slow one differs from run to run as the host does.
//
// "The host took no time": the same tasks in the same order, with no issue time, no launch latency and no overhead of
// the step; GradScaler's wait for its answer stays. Both without the sleeps of --delay-ms and --straggler, which are no
// work of anybody: a small model is not less host-bound for a host that also sleeps. A step whose host share is above
// kHostBoundShare is host-bound: it would be that much shorter on a faster processor, and its measured time varies with
// what else the host does. Example: 2 layers of 1024 wide on 4 GPUs, whose kernels are shorter than their launches.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

inline constexpr double kHostBoundShare = 0.10;
/// How the warning of a host-bound prediction begins.
inline constexpr const char* kHostBoundWarning = "bound by the host";

/// The same costs without the host's.
PricedWork without_host(const Plan& plan, PricedWork priced);

/// The step with a slow host, the sleeps in it.
struct SlowHost {
  double share = 0;    // of the step without its sleeps: what a host that took no time would save
  double step_ns = 0;  // with its sleeps
};

/// `priced`: what the plan costs with HostSpeed::slow, on GPUs. Throws CannotRun for a deadlock.
SlowHost slow_host(const Plan& plan, const PricedWork& priced);

/// Of a prediction whose share is above kHostBoundShare; begins with kHostBoundWarning.
std::string host_bound_warning();

}  // namespace pdl
