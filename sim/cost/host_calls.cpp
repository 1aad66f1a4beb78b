#include "sim/cost/host_calls.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// Tasks of a kind in a step, of the GPU with most.
std::int64_t most_tasks(const Plan& plan, bool (*is)(TaskKind)) {
  std::vector<std::int64_t> tasks(plan.graph.workers, 0);
  for (const Task& task : plan.graph.tasks) tasks[static_cast<std::size_t>(task.worker)] += is(task.kind) ? 1 : 0;
  return tasks.empty() ? 0 : *std::max_element(tasks.begin(), tasks.end());
}

/// The Reducer of a single GPU calls allreduce too, though there is nothing for the device to do.
double call_without_peers_ns(const Plan& plan, const CostProfile& profile, HostTimes& host, Notices& notices) {
  const double ns = host.of("collective_issue", {collective_transport(plan, profile), 1}, false);
  const bool measured = std::any_of(profile.host.begin(), profile.host.end(), [](const HostTime& time) {
    return time.key.name == "collective_issue" && time.key.workers == 1;
  });
  if (ns > 0 && !measured) {
    const auto calls = most_tasks(plan, [](TaskKind kind) { return kind == TaskKind::bucket_copy_in; });
    notices.say_host_substitute(profile.name, "host collective_issue in a group of one GPU", "that of larger groups",
                                ns * static_cast<double>(calls));
  }
  return ns;
}

}  // namespace

bool has_work(const Plan& plan, bool (*is)(TaskKind)) {
  return std::any_of(plan.graph.works.begin(), plan.graph.works.end(), [&](const Work& work) { return is(work.kind); });
}

bool has_work(const Plan& plan, TaskKind kind) {
  return std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                     [&](const Work& work) { return work.kind == kind; });
}

std::string collective_transport(const Plan& plan, const CostProfile& profile) {
  if (plan.parallel.program == Program::ddp) return to_string(plan.spec.transport);
  if (profile.host_description.device != "cpu") return plan.spec.transport == Transport::gloo ? "gloo" : "nccl";
  return plan.parallel.program == Program::data_parallel ? "copy" : "gloo";
}

HostCalls host_calls(const Plan& plan, const CostProfile& profile, HostTimes& host, Notices& notices) {
  const bool ddp = plan.parallel.program == Program::ddp;
  const bool on_gpu = profile.host_description.device == "cuda";
  const bool all_reduces = has_work(plan, TaskKind::all_reduce);
  const std::string transport = to_string(plan.spec.transport);
  HostCalls calls;
  // A process of its own waits for its own GPU only.
  calls.step_overhead_ns = host.of("step_overhead", {.workers = ddp ? 1 : plan.graph.workers}, true);
  if (has_work(plan, is_transfer)) {
    const auto transfers = [&] { return most_tasks(plan, is_transfer); };
    calls.transfer_issue_ns = host.of("transfer_issue", {transport}, on_gpu || transport != "copy", transfers);
    calls.wait_issue_ns = host.of("wait_issue", {transport}, on_gpu, transfers);
  }
  calls.launch_latency_ns = host.of("launch_latency", {}, on_gpu, [&] { return most_tasks(plan, is_compute); });
  if (ddp || has_work(plan, TaskKind::bucket_copy_in))
    calls.reducer_hook_ns = host.of("reducer_hook", {}, true, [&] { return 2 * std::ssize(plan.spec.model.layers); });
  if (all_reduces)
    calls.collective_issue_ns = host.of("collective_issue", {collective_transport(plan, profile)}, true,
                                        [&] { return most_tasks(plan, is_collective); });
  if (ddp && !all_reduces) calls.call_without_peers_ns = call_without_peers_ns(plan, profile, host, notices);
  if (has_work(plan, TaskKind::sleep)) calls.sleep_overrun_ns = host.of("sleep_overrun", {}, true);
  if (plan.spec.dtype == Dtype::amp_fp16) calls.scaler_wait_ns = host.of("scaler_wait", {}, on_gpu);
  return calls;
}

}  // namespace pdl
