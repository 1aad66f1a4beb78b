// The whole prediction: plan -> price -> run -> timeline -> memory.
//
//   const CostProfile profile = load_profile("h100x4");
//   RunResult predicted = predict(spec, &profile);       // or predict(spec, nullptr) for a spec with synthetic costs
//
// Step time: the last end of a task, and the overhead of a step as a whole that the profile has.
#pragma once

#include <optional>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// A run that needs more than `memory_limit_bytes` on a GPU is refused (CannotRun). For schedule "auto" the order is
/// searched for first, among those that need no more (default: what the profile's cards have). `profile` is not used
/// (and may be nullptr) if the spec has synthetic costs. Throws InputError as make_plan and price; CannotRun for a
/// deadlock, and if a GPU would need more memory than the profile's cards have.
RunResult predict(const RunSpec& spec, const CostProfile* profile,
                  std::optional<std::int64_t> memory_limit_bytes = std::nullopt);

/// The plan of a spec; for schedule "auto" after the search for an order among those that need no more than
/// `memory_limit_bytes`, as predict() does; where no hosts were given on those of the profile
/// (sim/cost/hosts_of_profile.hpp). Throws InputError as make_plan and on_hosts_of_profile; CannotRun if no order needs
/// so little.
Plan plan_of(const RunSpec& spec, const CostProfile* profile,
             std::optional<std::int64_t> memory_limit_bytes = std::nullopt);

/// Of a plan that is there already: the same prediction as that of its spec, with the same errors but those of plans.
RunResult predict(const Plan& plan, const CostProfile* profile,
                  std::optional<std::int64_t> memory_limit_bytes = std::nullopt);

/// By the spec's synthetic costs, or else by the profile.
PricedWork price_plan(const Plan& plan, const CostProfile* profile);

/// When its tasks run at those costs, and the overhead of the step after them.
Timeline run_step(const Plan& plan, const PricedWork& priced);

/// What one plan costs and when its tasks run.
struct PlannedStep {
  PricedWork priced;
  Timeline timeline;
  std::vector<std::int64_t> peak_memory_bytes;
};
PlannedStep plan_step(const Plan& plan, const CostProfile* profile);

}  // namespace pdl
