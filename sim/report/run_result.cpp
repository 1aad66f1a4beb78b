#include "sim/report/run_result.hpp"

namespace pdl {

RunResult begin_result(const Plan& plan) {
  RunResult result;
  result.spec = plan.spec;
  result.stages = plan.stages;
  result.microbatch_rows = plan.microbatch_rows;
  result.live = plan.live;
  result.warnings = plan.warnings;
  for (const Task& task : plan.graph.tasks) {
    if (is_send(task.kind)) result.transfer_bytes.push_back(plan.graph.works[task.work].bytes);
  }
  return result;
}

}  // namespace pdl
