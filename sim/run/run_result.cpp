#include "sim/run/run_result.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/large_array.hpp"

namespace pdl {

RunResult begin_result(const Plan& plan) {
  RunResult result;
  result.spec = plan.spec;
  result.stages = plan.stages;
  result.replica_rows = plan.replica_rows;
  result.microbatch_rows = plan.microbatch_rows;
  result.live = plan.live;
  result.warnings = plan.warnings;
  reserve_large(result.transfer_bytes, plan.graph.tasks.size());  // the system gives what is written
  std::vector<bool> counted(plan.graph.groups, false);
  for (const Task& task : plan.graph.tasks) {
    if (!is_communication(task.kind)) continue;
    const Work& work = plan.graph.works[task.work];
    const bool slice = !is_collective(task.kind) && !is_pipeline_transfer(task.kind);
    if (is_send(task.kind) || (slice && !work.receives)) result.transfer_bytes.push_back(work.bytes);
    if (!is_collective(task.kind) || counted[task.group]) continue;
    counted[task.group] = true;
    result.collective_bytes.push_back(work.bytes);
  }
  return result;
}

std::optional<double> half_width_ms(const RunResult& run) {
  if (run.measured || !run.error_bar) return std::nullopt;
  return run.step_time.median_ms * run.error_bar->half_width_percent / 100;
}

std::optional<bool> lies_inside(const RunResult& predicted, const RunResult& measured) {
  const auto half_width = half_width_ms(predicted);
  if (!half_width) return std::nullopt;
  return std::abs(measured.step_time.median_ms - predicted.step_time.median_ms) <= *half_width;
}

std::int32_t most_live(const RunResult& run) {
  std::int32_t most = 0;
  for (const LiveActivations& of_gpu : run.live) most = std::max(most, of_gpu.count);
  return most;
}

}  // namespace pdl
