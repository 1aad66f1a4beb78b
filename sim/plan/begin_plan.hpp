// The two halves of make_plan(), for PlanMaker, which has the second one's graph already where only sizes differ.
//
//   make_plan(spec)  =  finish_plan(begin_plan(spec))
//
//   begin_plan   program, mesh, replicas, micro-batches: what is done, and warnings about it
//   finish_plan  stages, buffers, the graph
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// Everything that does not depend on the program. Throws as make_plan().
Plan begin_plan(RunSpec spec);

/// Throws as make_plan().
Plan finish_plan(Plan plan);

/// Of a plan with stages, begun: what each worker does. The plan must outlive it. Throws as StepOrder.
StepOrder order_of(const Plan& plan);

/// Those of a schedule that is a file.
void say_warnings_of_schedule(Plan& plan);

}  // namespace pdl
