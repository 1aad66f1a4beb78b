#include "sim/engine/host_delays.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace pdl {
namespace {

constexpr std::int32_t kOfAnotherStep = -2;

/// The last task of a kind that a host issued.
struct Issued {
  std::int64_t end_ns = 0;
  std::int32_t microbatch = kOfAnotherStep;  // parts of one backward are one
};

/// What one host did, as far as it matters for what it issues next. Times from the start of the step.
struct Host {
  std::int64_t now_ns = 0;
  std::int64_t paused_ns = 0;  // just before
  bool slept = false;
  std::array<std::optional<Issued>, kTaskKinds> last = {};  // of each kind
  std::optional<TaskKind> just_issued;

  void wait_until(std::int64_t time_ns) {
    paused_ns += std::max<std::int64_t>(time_ns - now_ns, 0);
    now_ns = std::max(now_ns, time_ns);
  }

  void sleep(std::int64_t ns) {
    slept = slept || ns > 0;
    paused_ns += ns;
    now_ns += ns;
  }

  /// Returns how much later than the host was free the task was begun.
  std::int64_t issue(const Task& task, std::int64_t issue_ns, const HostPauses& pauses, std::int64_t prepare_ns) {
    std::optional<Issued>& before = last[static_cast<std::size_t>(task.kind)];
    std::int64_t delay_ns = prepare_ns;
    const bool again = just_issued == task.kind && paused_ns == 0;
    if (before && before->microbatch != task.microbatch && !again) {
      delay_ns += pauses.delay_ns(task.kind, now_ns - before->end_ns, paused_ns, slept);
    }
    now_ns += delay_ns + issue_ns;
    paused_ns = 0;
    slept = false;
    before = Issued{now_ns, task.microbatch};
    just_issued = task.kind;
    return delay_ns;
  }

  void next_step(std::int64_t step_ns) {
    wait_until(step_ns);
    const std::int64_t length_ns = now_ns;
    now_ns = 0;
    for (std::optional<Issued>& issued : last) {
      if (issued) issued = Issued{issued->end_ns - length_ns, kOfAnotherStep};
    }
  }
};

class Step {
 public:
  Step(const TaskGraph& graph, std::span<const TaskCost> costs, const HostPauses& pauses, std::int64_t step_ns)
      : graph_(graph), costs_(costs), pauses_(pauses), step_ns_(step_ns) {
    for (const Task& task : graph.tasks) {
      if (task.kind == TaskKind::bucket_copy_in || task.kind == TaskKind::all_reduce)
        exchanged_.insert(task.microbatch);
    }
  }

  std::vector<std::int64_t> issue(std::vector<Host>& hosts) const {
    std::vector<std::int64_t> delays_ns(graph_.tasks.size(), 0);
    for (TaskId t = 0; t < graph_.tasks.size(); ++t) {
      const Task& task = graph_.tasks[t];
      const TaskCost& cost = costs_[task.work];
      Host& host = hosts[task.host];
      if (task.kind == TaskKind::sleep) {
        host.sleep(cost.issue_ns);
        continue;
      }
      // GradScaler: all before the optimizer has been done by then, and the optimizer ends the step.
      if (task.kind == TaskKind::optimizer && pauses_.waits_in_optimizer()) host.wait_until(step_ns_ - cost.device_ns);
      const bool prepares = task.kind == TaskKind::forward && exchanged_.contains(task.microbatch);
      delays_ns[t] = host.issue(task, cost.issue_ns, pauses_, prepares ? pauses_.prepare_ns() : 0);
    }
    return delays_ns;
  }

 private:
  const TaskGraph& graph_;
  std::span<const TaskCost> costs_;
  const HostPauses& pauses_;
  std::int64_t step_ns_;
  std::set<std::int32_t> exchanged_;  // micro-batches of rounds that exchange gradients
};

}  // namespace

std::vector<std::int64_t> host_delays_ns(const TaskGraph& graph, std::span<const TaskCost> costs,
                                         const HostPauses& pauses, std::int64_t step_ns) {
  std::vector<Host> hosts(graph.hosts);
  const Step step(graph, costs, pauses, step_ns);
  step.issue(hosts);  // the step before
  for (Host& host : hosts) host.next_step(step_ns);
  return step.issue(hosts);
}

}  // namespace pdl
