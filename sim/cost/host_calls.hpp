// What a host takes for the calls of a step beside its kernels: those that this plan makes, 0 for the others.
//
//   HostTimes host(profile, "autograd", quantile, notices);
//   const HostCalls calls = host_calls(plan, profile, host, notices);
//   calls.reducer_hook_ns          // of DDP alone
//
// What the profile lacks is left for HostTimes::say_missing(). Units: nanoseconds.
#pragma once

#include "sim/cost/host_times.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

struct HostCalls {
  double step_overhead_ns = 0;  // of a step as a whole
  double transfer_issue_ns = 0;
  bool batches_messages = false;  // what a transfer takes is for all messages of a batch (Work::same_call)
  double wait_issue_ns = 0;
  double launch_latency_ns = 0;      // from the launch of a kernel to its start on an idle stream
  double reducer_hook_ns = 0;        // of one tensor
  double collective_issue_ns = 0;    // of an all-reduce
  double call_without_peers_ns = 0;  // DDP of a single GPU, which calls allreduce too
  double sleep_overrun_ns = 0;
  double scaler_wait_ns = 0;
};

/// True if the plan has such a task.
bool has_work(const Plan& plan, bool (*is)(TaskKind));
bool has_work(const Plan& plan, TaskKind kind);

/// By what GPUs, or workers on CPU, exchange what is not of a pipeline. DataParallel's workers on CPU are threads that
/// copy.
std::string collective_transport(const Plan& plan, const CostProfile& profile);

HostCalls host_calls(const Plan& plan, const CostProfile& profile, HostTimes& host, Notices& notices);

}  // namespace pdl
