#include "sim/run/waiting_for.hpp"

#include <optional>
#include <unordered_map>

#include "sim/run/measured_facts.hpp"
#include "sim/run/plan_of_run.hpp"

namespace pdl {
namespace {

/// Collects, span by span, the last to end of what it waited for.
class LastBefore {
 public:
  LastBefore(const RunResult& run, const TaskGraph& graph, bool with_sleeps)
      : run_(run), spans_(run.timeline.spans), graph_(graph), with_sleeps_(with_sleeps), before_(spans_.size(), -1) {}

  std::vector<std::int32_t> found() && {
    add_streams_and_hosts();
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      for (const TaskId after : graph_.edges.after(task)) add(after, task);
    }
    add_groups();
    return std::move(before_);
  }

 private:
  void add(TaskId after, TaskId before) {
    std::int32_t& last = before_[after];
    if (last < 0 || spans_[before].end_ns > end_ns(last)) last = static_cast<std::int32_t>(before);
  }

  /// First, so that of equal ends the one on the stream stays.
  void add_streams_and_hosts() {
    const bool host_computes = is_on_cpu(run_);
    std::unordered_map<std::uint32_t, TaskId> last_of_stream;
    std::vector<TaskId> last_of_host(graph_.hosts, kNone);
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      const Task& own = graph_.tasks[task];
      if (!with_sleeps_ && own.kind == TaskKind::sleep) continue;
      if (own.stream != kNone) {
        const auto [found, first] = last_of_stream.try_emplace(own.stream, task);
        if (!first) add(task, found->second);
        found->second = task;
      }
      TaskId& of_host = last_of_host[own.host];
      const bool holds = of_host != kNone && (host_computes || graph_.tasks[of_host].kind == TaskKind::sleep);
      if (holds && (own.group == kNone || graph_.tasks[of_host].group != own.group)) add(task, of_host);
      of_host = task;
    }
  }

  void add_groups() {
    struct Group {
      TaskId last = kNone;                 // to be ready
      std::int32_t held_together_by = -1;  // those that were ready at once with it
    };
    std::vector<Group> groups(graph_.groups);
    const auto for_each_member = [&](auto&& visit) {
      for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
        if (graph_.tasks[task].group != kNone) visit(task, groups[graph_.tasks[task].group]);
      }
    };
    for_each_member([&](TaskId task, Group& group) {
      if (group.last == kNone || spans_[task].start_ns > spans_[group.last].start_ns) group.last = task;
    });
    const auto ready_with_last = [&](TaskId task, const Group& group) {
      return spans_[task].start_ns + at_once_ns(run_) >= spans_[group.last].start_ns;
    };
    for_each_member([&](TaskId task, Group& group) {
      if (!ready_with_last(task, group) || before_[task] < 0) return;
      std::int32_t& held = group.held_together_by;
      if (held < 0 || end_ns(before_[task]) > end_ns(held)) held = before_[task];
    });
    for_each_member([&](TaskId task, Group& group) {
      before_[task] = ready_with_last(task, group) ? group.held_together_by : static_cast<std::int32_t>(group.last);
    });
  }

  std::int64_t end_ns(std::int32_t span) const { return spans_[static_cast<std::size_t>(span)].end_ns; }

  const RunResult& run_;
  const std::vector<Span>& spans_;
  const TaskGraph& graph_;
  bool with_sleeps_;
  std::vector<std::int32_t> before_;
};

std::vector<std::int32_t> last_before(const RunResult& run, bool with_sleeps) {
  const std::optional<Plan> plan = plan_of_run(run);
  if (!plan) return {};
  return LastBefore(run, plan->graph, with_sleeps).found();
}

}  // namespace

std::int64_t at_once_ns(const RunResult& run) {
  return run.measured ? 20'000 : 0;
}

std::vector<std::int32_t> last_before(const RunResult& run) {
  return last_before(run, true);
}

std::vector<std::int32_t> last_before_without_sleeps(const RunResult& run) {
  return last_before(run, false);
}

std::vector<std::int32_t> waited_for(const RunResult& run) {
  const std::vector<Span>& spans = run.timeline.spans;
  const std::int64_t late_ns = at_once_ns(run);
  std::vector<std::int32_t> before = last_before(run);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] < 0) continue;
    if (spans[i].start_ns > spans[static_cast<std::size_t>(before[i])].end_ns + late_ns) before[i] = -1;
  }
  return before;
}

}  // namespace pdl
