// A step on cards at their power limit: the clock that its layers have, and what they cost at that.
//
//   PricedWork priced = price_by_profile(plan, families);      // at full clock
//   const double slowdown = slowdown_of_layers(plan, priced);  // 1.06
//   slow_down_layers(priced, slowdown);
//
// One clock for all GPUs, that of the one with the most FLOPs: those of a pipeline have about the same. The rule:
// sim/cost/power_limit.hpp. Units: nanoseconds. Not here: how the clock moves within a step.
#pragma once

#include "sim/cost/price.hpp"
#include "sim/engine/repeated_runs.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// Runs the plan at full clock, if it can reach the limit at all. 1 where there is none. `runs`: as run_plan() has it.
double slowdown_of_layers(const Plan& plan, const PricedWork& at_full_clock, const RepeatedRuns* runs = nullptr);

/// `priced`: by any host, at full clock; afterwards it has that slowdown.
void slow_down_layers(PricedWork& priced, double slowdown);

}  // namespace pdl
