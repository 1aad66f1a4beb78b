#include "sim/engine/fixed_rates.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

/// All that the pass needs of a task, together: it goes from GPU to GPU, so that each place in memory where it looks
/// takes longer than what it does there. As large as the task's span, in whose place it stands until the pass is over.
struct PendingTask {
  std::int64_t start_ns;         // when it is ready, as far as is known
  std::int64_t end_ns;           // of one run: it ends no earlier; of two: when it is ready in the second. Then its end
  TaskId next_on_stream;         // kNone: the last
  std::uint32_t waits_for;       // tasks that have not ended
  std::uint32_t work;            // index into TaskGraph::works
  std::uint32_t tasks_after_it;  // Edges::place_of
};
static_assert(sizeof(PendingTask) == sizeof(Span) && alignof(PendingTask) == alignof(Span));
static_assert(std::is_trivially_destructible_v<PendingTask> && std::is_trivially_destructible_v<Span>);

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

template <bool kTwoRuns>
class Pass {
 public:
  Pass(const TaskGraph& graph, std::span<const TaskCost> costs, std::span<const std::int64_t> issue_ns,
       std::vector<Span>& spans, LengthOfRun* second)
      : graph_(graph), costs_(costs), issue_ns_(issue_ns), spans_(spans), second_(second) {
    for (std::size_t work = 0; work < costs.size(); ++work)
      takes_.push_back({costs[work].device_ns, kTwoRuns ? second->device_ns[work] : 0});
    if (kTwoRuns && second->by_worker) extents_.resize(graph.workers);
  }

  std::int64_t run() {
    make_pending_tasks();
    count_tasks_before();
    while (!free_.empty()) {
      const TaskId task = free_.back();
      free_.pop_back();
      start(task);
    }
    if (ended_ != graph_.tasks.size()) {
      spans_.clear();
      throw_deadlock(graph_);
    }
    make_spans();
    if constexpr (kTwoRuns) measure_second_run();
    return last_end_.ns;
  }

 private:
  PendingTask& pending_task(TaskId id) { return *std::launder(reinterpret_cast<PendingTask*>(places_ + id)); }

  /// Each waits for the one before it on its stream. Those that wait for none are free, if no edge leads to them.
  void make_pending_tasks() {
    spans_.clear();
    reserve_large(spans_, graph_.tasks.size());
    places_ = spans_.data();
    if (graph_.groups > 0) groups_.resize(graph_.groups);
    if (graph_.groups > 0) next_in_group_.assign(graph_.tasks.size(), kNone);
    std::vector<TaskId> last_on_stream(std::size_t{graph_.workers} * kStreamsPerWorker, kNone);
    for (TaskId id = 0; id < graph_.tasks.size(); ++id) {
      const Task& task = graph_.tasks[id];
      spans_.emplace_back();
      PendingTask& pending = *std::construct_at(reinterpret_cast<PendingTask*>(&spans_[id]));
      pending = {0, 0, kNone, 0, task.work, graph_.edges.place_of(id)};
      if (!issue_ns_.empty()) {
        pending.start_ns = issue_ns_[id] + costs_[task.work].first_launch_ns;
        pending.end_ns = issue_ns_[id] + costs_[task.work].span_ns;
      }
      if (task.group != kNone) ++groups_[task.group].waits_for;
      const TaskId before = task.stream == kNone ? kNone : std::exchange(last_on_stream[task.stream], id);
      if (before == kNone) {
        free_.push_back(id);
      } else {
        pending_task(before).next_on_stream = id;
        pending.waits_for = 1;
      }
    }
  }

  void count_tasks_before() {
    for (TaskId id = 0; id < graph_.tasks.size(); ++id) {
      for (const TaskId after : graph_.edges.after(id)) ++pending_task(after).waits_for;
    }
    std::erase_if(free_, [&](TaskId id) { return pending_task(id).waits_for > 0; });
    std::reverse(free_.begin(), free_.end());
  }

  Moment ready(TaskId task) { return {pending_task(task).start_ns, kTwoRuns ? pending_task(task).end_ns : 0}; }

  void start(TaskId task) {
    if (groups_.empty()) return end(task, ready(task));
    const std::uint32_t in_group = graph_.tasks[task].group;
    if (in_group == kNone) return end(task, ready(task));
    Group& group = groups_[in_group];
    const Moment own = ready(task);
    group.ready.no_earlier_than(own);
    if (graph_.works[graph_.tasks[task].work].eager) {
      end(task, own);
    } else {
      next_in_group_[task] = group.newest;
      group.newest = task;
    }
    if (--group.waits_for > 0) return;
    for (TaskId member = group.newest; member != kNone; member = next_in_group_[member]) end(member, group.ready);
  }

  /// Of a task that has all it needs from `from` on.
  void end(TaskId id, const Moment& from) {
    fetch_ahead(id);
    PendingTask& task = pending_task(id);
    const Moment& takes = takes_[task.work];
    Moment end{from.ns + takes.ns, 0};
    if constexpr (kTwoRuns) {
      end.second_ns = from.second_ns + takes.second_ns;
      last_end_.no_earlier_than(end);
      if (!extents_.empty()) extend(extents_[static_cast<std::size_t>(graph_.tasks[id].worker)], task.end_ns, end);
    } else {
      end.ns = std::max(end.ns, task.end_ns);
      last_end_.ns = std::max(last_end_.ns, end.ns);
    }
    task.end_ns = end.ns;
    ++ended_;
    // The newest is the next to start: its place in memory is nearest.
    for (const TaskId after : graph_.edges.at(task.tasks_after_it)) release(after, end);
    if (task.next_on_stream != kNone) release(task.next_on_stream, end);
  }

  /// The tasks of a GPU come about in the order of their numbers, but between two of them the pass is at other GPUs,
  /// more than the processor can see a pattern in: it is told.
  void fetch_ahead(TaskId id) const {
    constexpr std::size_t kAhead = 16;
    if (id + kAhead < graph_.tasks.size()) __builtin_prefetch(places_ + id + kAhead, 1);
  }

  static void extend(Extent& extent, std::int64_t start_ns, const Moment& end) {
    extent.first_ns = std::min(extent.first_ns, start_ns);
    extent.last_ns = std::max(extent.last_ns, end.second_ns);
  }

  /// One of the tasks that `id` waits for has ended.
  void release(TaskId id, const Moment& at) {
    PendingTask& task = pending_task(id);
    task.start_ns = std::max(task.start_ns, at.ns);
    if constexpr (kTwoRuns) task.end_ns = std::max(task.end_ns, at.second_ns);
    if (--task.waits_for == 0) free_.push_back(id);
  }

  void make_spans() {
    for (TaskId id = 0; id < graph_.tasks.size(); ++id) {
      const TaskTimes times{pending_task(id).start_ns, pending_task(id).end_ns};
      std::construct_at(&spans_[id], span_of(graph_.tasks[id], times));
    }
  }

  void measure_second_run() {
    second_->last_end_ns = last_end_.second_ns;
    for (const Extent& extent : extents_)
      second_->longest_worker_ns = std::max(second_->longest_worker_ns, extent.last_ns - extent.first_ns);
  }

  const TaskGraph& graph_;
  std::span<const TaskCost> costs_;
  std::span<const std::int64_t> issue_ns_;
  std::vector<Span>& spans_;
  LengthOfRun* second_;
  Span* places_ = nullptr;     // of spans_, in which the pending tasks stand
  std::vector<Moment> takes_;  // by work
  std::vector<TaskId> free_;
  std::size_t ended_ = 0;
  Moment last_end_;
  std::vector<Group> groups_;
  std::vector<TaskId> next_in_group_;
  std::vector<Extent> extents_;  // by worker
};

}  // namespace

std::int64_t run_at_fixed_rates(const TaskGraph& graph, std::span<const TaskCost> costs,
                                std::span<const std::int64_t> issue_ns, std::vector<Span>& spans, LengthOfRun* second) {
  if (second && !issue_ns.empty()) throw std::logic_error("two runs in one pass, with hosts");
  if (second) return Pass<true>(graph, costs, issue_ns, spans, second).run();
  return Pass<false>(graph, costs, issue_ns, spans, nullptr).run();
}

}  // namespace pdl
