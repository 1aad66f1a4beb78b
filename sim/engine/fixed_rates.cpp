#include "sim/engine/fixed_rates.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sim/engine/deadlock.hpp"
#include "sim/io/large_array.hpp"

namespace pdl {
namespace {

/// When something is ready, or has ended, in both runs. Without a second run its time is 0.
struct Moment {
  std::int64_t ns = 0;
  std::int64_t second_ns = 0;

  void no_earlier_than(const Moment& other) {
    ns = std::max(ns, other.ns);
    second_ns = std::max(second_ns, other.second_ns);
  }
};

/// The members of a group that are ready: a list through Pass::next_in_group_, the newest first.
struct Group {
  Moment ready;
  std::uint32_t waits_for = 0;
  TaskId newest = kNone;
};

/// From the first start to the last end of a worker's tasks, in the second run.
struct Extent {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = 0;
};

/// Until a task has ended, its start is when it is ready as far as is known, and its end, of one run, no earlier than
/// that. Of two runs the end is when it is ready in the second one: 8 bytes a task less.
template <typename Timed, bool kTwoRuns>
class Pass {
 public:
  Pass(const TaskGraph& graph, std::span<const TaskCost> costs, std::span<Timed> times, LengthOfRun* second)
      : graph_(graph), costs_(costs), times_(times), second_(second) {
    reserve_large(tasks_, graph.tasks.size());
    tasks_.resize(graph.tasks.size());
    if constexpr (kTwoRuns) extents_.resize(graph.workers);
  }

  std::int64_t run() {
    count_what_tasks_wait_for();
    for (auto task = static_cast<TaskId>(tasks_.size()); task-- > 0;) {
      if (tasks_[task].waits_for == 0) free_.push_back(task);
    }
    while (!free_.empty()) {
      const TaskId task = free_.back();
      free_.pop_back();
      start(task);
    }
    if (ended_ != tasks_.size()) throw_deadlock(graph_);
    if constexpr (kTwoRuns) measure_second_run();
    return last_end_ns_;
  }

 private:
  struct Waiting {
    TaskId next_on_stream = kNone;
    std::uint32_t waits_for = 0;  // tasks that have not ended
  };

  void count_what_tasks_wait_for() {
    std::vector<TaskId> last(std::size_t{graph_.workers} * kStreamsPerWorker, kNone);
    if (graph_.groups > 0) groups_.resize(graph_.groups);
    if (graph_.groups > 0) next_in_group_.assign(tasks_.size(), kNone);
    for (TaskId id = 0; id < tasks_.size(); ++id) {
      const Task& task = graph_.tasks[id];
      for (const TaskId after : graph_.edges.after(id)) ++tasks_[after].waits_for;
      if (task.group != kNone) ++groups_[task.group].waits_for;
      if (task.stream == kNone) continue;
      if (last[task.stream] != kNone) {
        tasks_[last[task.stream]].next_on_stream = id;
        ++tasks_[id].waits_for;
      }
      last[task.stream] = id;
    }
  }

  Moment ready(TaskId task) const { return {times_[task].start_ns, kTwoRuns ? times_[task].end_ns : 0}; }

  void start(TaskId task) {
    const std::uint32_t in_group = graph_.tasks[task].group;
    if (in_group == kNone) return end(task, ready(task));
    Group& group = groups_[in_group];
    group.ready.no_earlier_than(ready(task));
    next_in_group_[task] = group.newest;
    group.newest = task;
    if (--group.waits_for > 0) return;
    for (TaskId member = group.newest; member != kNone; member = next_in_group_[member]) end(member, group.ready);
  }

  /// Of a task that has all it needs from `from` on.
  void end(TaskId task, const Moment& from) {
    const Task& own = graph_.tasks[task];
    Timed& time = times_[task];
    Moment end{from.ns + costs_[own.work].device_ns, 0};
    if constexpr (kTwoRuns) {
      end.second_ns = from.second_ns + second_->device_ns[own.work];
      Extent& extent = extents_[static_cast<std::size_t>(own.worker)];
      extent.first_ns = std::min(extent.first_ns, time.end_ns);
      extent.last_ns = std::max(extent.last_ns, end.second_ns);
    } else {
      end.ns = std::max(end.ns, time.end_ns);
    }
    time.end_ns = end.ns;
    last_end_ns_ = std::max(last_end_ns_, end.ns);
    ++ended_;
    if (const TaskId next = tasks_[task].next_on_stream; next != kNone) release(next, end);
    for (const TaskId after : graph_.edges.after(task)) release(after, end);
  }

  /// One of the tasks that `task` waits for has ended.
  void release(TaskId task, const Moment& at) {
    Timed& time = times_[task];
    time.start_ns = std::max(time.start_ns, at.ns);
    if constexpr (kTwoRuns) time.end_ns = std::max(time.end_ns, at.second_ns);
    if (--tasks_[task].waits_for == 0) free_.push_back(task);
  }

  void measure_second_run() {
    for (const Extent& extent : extents_) {
      second_->last_end_ns = std::max(second_->last_end_ns, extent.last_ns);
      second_->longest_worker_ns = std::max(second_->longest_worker_ns, extent.last_ns - extent.first_ns);
    }
  }

  const TaskGraph& graph_;
  std::span<const TaskCost> costs_;
  std::span<Timed> times_;
  LengthOfRun* second_;
  std::vector<Waiting> tasks_;
  std::vector<TaskId> free_;
  std::size_t ended_ = 0;
  std::int64_t last_end_ns_ = 0;
  std::vector<Group> groups_;
  std::vector<TaskId> next_in_group_;
  std::vector<Extent> extents_;  // by worker
};

}  // namespace

template <typename Timed>
std::int64_t run_at_fixed_rates(const TaskGraph& graph, std::span<const TaskCost> costs,
                                std::span<const std::int64_t> issue_ns, std::span<Timed> times, LengthOfRun* second) {
  if (second && !issue_ns.empty()) throw std::logic_error("two runs in one pass, with hosts");
  for (std::size_t task = 0; task < times.size(); ++task) {
    if (issue_ns.empty()) {
      times[task].start_ns = times[task].end_ns = 0;
    } else {
      const TaskCost& cost = costs[graph.tasks[task].work];
      times[task].start_ns = issue_ns[task] + cost.first_launch_ns;
      times[task].end_ns = issue_ns[task] + cost.span_ns;
    }
  }
  if (second) return Pass<Timed, true>(graph, costs, times, second).run();
  return Pass<Timed, false>(graph, costs, times, nullptr).run();
}

template std::int64_t run_at_fixed_rates(const TaskGraph&, std::span<const TaskCost>, std::span<const std::int64_t>,
                                         std::span<TaskTimes>, LengthOfRun*);
template std::int64_t run_at_fixed_rates(const TaskGraph&, std::span<const TaskCost>, std::span<const std::int64_t>,
                                         std::span<Span>, LengthOfRun*);

}  // namespace pdl
