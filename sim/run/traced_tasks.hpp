// A traced step beside a run of the same settings, predicted usually: which kernels are which task of its plan.
//
//   const TracedTasks tasks = traced_tasks(traced, predicted, "predicted.json", plan);
//   tasks.tasks[0]        {tasks {0}: F0, activities 0 to 17}
//   tasks.others          activities of no task
//
// Kernels of NCCL are the tasks of their kind in order: the n-th collective is the n-th bucket, the n-th kernel of
// messages the n-th batch of messages that the program starts together. Between them, in the order of launches,
// computation belongs to the tasks between the same two: forward where the host was at no backward, loss and backward,
// copies into buckets, copies out of them, optimizer. Where that leaves several tasks (micro-batches with no
// communication between them), they are one row: the trace does not tell them apart.
//
// Not here: programs with one process for several GPUs, whose traces are not of a rank each.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/run/run_result.hpp"
#include "sim/run/trace_ranks.hpp"

namespace pdl {

/// One task of the plan, or several that the trace does not tell apart.
struct TracedTask {
  std::vector<TaskId> tasks;        // in program order
  std::vector<std::size_t> places;  // in the step's activities; empty: the trace has none
};

struct TracedTasks {
  std::int32_t worker = 0;
  std::vector<TracedTask> tasks;    // in program order; sleeps of the host are left out
  std::vector<std::size_t> others;  // places of what is of no task
  bool layers_checked = false;      // products of the forward were counted
};

/// `plan`: of `run`, which messages call `run_name`. Throws InputError naming the trace, with what was found and
/// expected, where it is of another run: world size, number and bytes of collectives, number of messages, products of
/// the forward; and where its calls are not known, or the run has one process for several GPUs.
TracedTasks traced_tasks(const TracedStep& traced, const RunResult& run, const std::string& run_name, const Plan& plan);

/// When the activities began and ended, from the start of the step.
TaskTimes times_of(const TracedStep& traced, const std::vector<std::size_t>& places);

/// The traces as a measured run, for the views of runs. Nothing unless all ranks are given and each task is known of
/// its own. `ranks`: of the same traces, for their clock.
std::optional<RunResult> measured_run(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                                      const std::vector<TracedTasks>& tasks, const Plan& plan);

}  // namespace pdl
