// The step of one plan: what its tasks cost, when they run, what memory they need.
//
//   LayerFamilies families(profile);                        // one for all plans by a profile
//   StepOfPlan step = step_of_plan(make_plan(spec), &families);
//   step.timeline.step_ns, step.peak_memory_bytes[0]
//
// What the search for an order (find_order.hpp), the judgement of the host (host_bound.hpp) and predict() are built on.
// Units: nanoseconds, bytes. Not here: which order, which hosts, whether the memory is there (predict.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/engine/repeated_runs.hpp"
#include "sim/engine/run.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace pdl {

struct StepOfPlan {
  PricedWork priced;
  Timeline timeline;
  LengthOfRun ideal;                            // if asked for: of compute costs alone, no transfers, no host
  WorkspaceBytes workspaces;                    // none where costs are synthetic
  std::vector<std::int64_t> peak_memory_bytes;  // one a GPU
};

/// By the spec's synthetic costs, or else by the profile of the families, which then must be there.
/// `runs`: of the plan's graph, where there are several; nullptr: there are none. Throws InputError as
/// price_by_profile(); CannotRun for a deadlock.
StepOfPlan step_of_plan(const Plan& plan, LayerFamilies* families, bool with_ideal = false,
                        const RepeatedRuns* runs = nullptr);

/// What its libraries hold on a GPU; nothing where costs are synthetic.
WorkspaceBytes workspaces_of(const Plan& plan, const CostProfile* profile);

/// The first part of it: what the plan's work costs, at the clock that its cards keep in this step
/// (sim/predict/at_power_limit.hpp).
PricedWork price_plan(const Plan& plan, LayerFamilies* families, const RepeatedRuns* runs = nullptr);

/// The same at full clock: no step takes less.
PricedWork price_at_full_clock(const Plan& plan, LayerFamilies* families);

/// Do RepeatedRuns give the times? Not where multiprocessors are shared or hosts pause.
bool can_repeat(const PricedWork& priced);

/// The second: when the plan's tasks run at those costs, and the overhead of the step after them.
/// `second` (may be null): sim/engine/run.hpp.
Timeline run_plan(const Plan& plan, const PricedWork& priced, LengthOfRun* second = nullptr,
                  const RepeatedRuns* runs = nullptr);

}  // namespace pdl
