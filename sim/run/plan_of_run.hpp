// The plan that a run is of, for views that need more of a task than its span has: bytes, layers, who it is sent to.
//
//   const auto plan = plan_of_run(run);
//   plan->graph.works[plan->graph.tasks[3].work].bytes        // of run.timeline.spans[3]
//
// A run has the spec, from which the plan is made anew.
#pragma once

#include <optional>

#include "sim/run/run_result.hpp"

namespace pdl {

/// Task i of its graph is span i of the run. Nothing where the spans are not the plan's tasks (a file that was edited).
/// Throws as make_plan().
std::optional<Plan> plan_of_run(const RunResult& run);

}  // namespace pdl
