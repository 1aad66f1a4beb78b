#include "sim/run/waiting_for.hpp"

#include <optional>
#include <unordered_map>

#include "sim/run/plan_of_run.hpp"

namespace pdl {
namespace {

/// Collects, span by span, the last to end of what it waited for.
class LastBefore {
 public:
  LastBefore(const std::vector<Span>& spans, const TaskGraph& graph)
      : spans_(spans), graph_(graph), before_(spans.size(), -1) {}

  std::vector<std::int32_t> found() && {
    add_streams_and_sleeps();
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      for (auto [edge, end] = boost::out_edges(task, graph_.edges); edge != end; ++edge)
        add(boost::target(*edge, graph_.edges), task);
    }
    add_groups();
    return std::move(before_);
  }

 private:
  void add(TaskId after, TaskId before) {
    std::int32_t& last = before_[after];
    if (last < 0 || spans_[before].end_ns > spans_[static_cast<std::size_t>(last)].end_ns)
      last = static_cast<std::int32_t>(before);
  }

  /// First, so that of equal ends the one on the stream stays.
  void add_streams_and_sleeps() {
    std::unordered_map<std::uint32_t, TaskId> last_of_stream;
    std::vector<TaskId> last_of_host(graph_.hosts, kNone);
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      const Task& own = graph_.tasks[task];
      if (own.stream != kNone) {
        const auto [found, first] = last_of_stream.try_emplace(own.stream, task);
        if (!first) add(task, found->second);
        found->second = task;
      }
      TaskId& of_host = last_of_host[own.host];
      if (of_host != kNone && graph_.tasks[of_host].kind == TaskKind::sleep) add(task, of_host);
      of_host = task;
    }
  }

  void add_groups() {
    std::vector<TaskId> last_ready(graph_.groups, kNone);
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      const std::uint32_t group = graph_.tasks[task].group;
      if (group == kNone) continue;
      TaskId& last = last_ready[group];
      if (last == kNone || spans_[task].start_ns > spans_[last].start_ns) last = task;
    }
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      const std::uint32_t group = graph_.tasks[task].group;
      if (group == kNone || spans_[task].start_ns == spans_[last_ready[group]].start_ns) continue;
      before_[task] = static_cast<std::int32_t>(last_ready[group]);
    }
  }

  const std::vector<Span>& spans_;
  const TaskGraph& graph_;
  std::vector<std::int32_t> before_;
};

}  // namespace

std::vector<std::int32_t> last_before(const RunResult& run) {
  const std::optional<Plan> plan = plan_of_run(run);
  if (!plan) return {};
  return LastBefore(run.timeline.spans, plan->graph).found();
}

std::vector<std::int32_t> waited_for(const RunResult& run) {
  const std::vector<Span>& spans = run.timeline.spans;
  const std::int64_t at_once_ns = run.measured ? kMeasuredStartNs : 0;
  std::vector<std::int32_t> before = last_before(run);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] < 0) continue;
    if (spans[i].start_ns > spans[static_cast<std::size_t>(before[i])].end_ns + at_once_ns) before[i] = -1;
  }
  return before;
}

}  // namespace pdl
