#include "sim/run/plan_of_run.hpp"

#include <algorithm>

namespace pdl {

std::optional<Plan> plan_of_run(const RunResult& run) {
  Plan plan = make_plan(run.spec);
  const bool same = std::equal(plan.graph.tasks.begin(), plan.graph.tasks.end(), run.timeline.spans.begin(),
                               run.timeline.spans.end(), [](const Task& task, const Span& span) {
                                 return task.kind == span.kind && task.worker == span.worker &&
                                        task.stage == span.stage && task.microbatch == span.microbatch;
                               });
  return same ? std::optional(std::move(plan)) : std::nullopt;
}

}  // namespace pdl
