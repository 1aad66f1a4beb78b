#include "sim/engine/run.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "sim/engine/deadlock.hpp"
#include "sim/engine/order.hpp"

namespace pdl {
namespace {

struct Finish {
  std::int64_t time_ns;
  TaskId task;
  bool operator>(const Finish& other) const {
    return time_ns != other.time_ns ? time_ns > other.time_ns : task > other.task;
  }
};

class Engine {
 public:
  Engine(const TaskGraph& graph, std::span<const TaskCost> costs)
      : graph_(graph),
        costs_(costs),
        next_on_stream_(next_on_stream(graph)),
        times_(graph.tasks.size()),
        waits_for_(graph.tasks.size(), 0),
        group_ready_ns_(graph.groups, 0),
        group_waits_for_(graph.groups, 0),
        group_first_(graph.groups, kNone) {
    hosts_matter_ = std::any_of(costs.begin(), costs.end(), [](const TaskCost& c) { return c.span_ns > c.device_ns || c.issue_ns > 0; });
    count_what_tasks_wait_for();
  }

  // The loop: take the earliest finish, and start what it was holding back.
  std::vector<TaskTimes> run() {
    issue_what_can_be_issued();
    start_what_waits_for_nothing();
    std::size_t finished = 0;
    for (; !finishes_.empty(); ++finished) {
      const Finish now = finishes_.top();
      finishes_.pop();
      for (auto [edge, end] = boost::out_edges(now.task, graph_.edges); edge != end; ++edge) {
        release(boost::target(*edge, graph_.edges), now.time_ns);
      }
      if (next_on_stream_[now.task] != kNone) release(next_on_stream_[now.task], now.time_ns);
    }
    if (finished != graph_.tasks.size()) throw_deadlock(graph_);
    return std::move(times_);
  }

 private:
  const TaskCost& cost(TaskId task) const { return costs_[graph_.tasks[task].work]; }

  void count_what_tasks_wait_for() {
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      for (auto [edge, end] = boost::out_edges(task, graph_.edges); edge != end; ++edge) {
        ++waits_for_[boost::target(*edge, graph_.edges)];
      }
      if (next_on_stream_[task] != kNone) ++waits_for_[next_on_stream_[task]];
      if (hosts_matter_) ++waits_for_[task];
      if (const std::uint32_t group = graph_.tasks[task].group; group != kNone) ++group_waits_for_[group];
    }
    next_in_group_.assign(graph_.groups > 0 ? graph_.tasks.size() : 0, kNone);
  }

  void start_what_waits_for_nothing() {
    if (hosts_matter_) return;  // issuing has released each task
    std::vector<TaskId> free;
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      if (waits_for_[task] == 0) free.push_back(task);
    }
    for (const TaskId task : free) start(task);
  }

  /// Hosts run ahead of the devices: when a task is issued depends on issues alone.
  void issue_what_can_be_issued() {
    if (!hosts_matter_) return;
    const std::vector<TaskId> next = next_on_host(graph_);
    std::vector<std::uint32_t> waits(graph_.tasks.size(), 0);
    std::vector<std::int64_t> begin_ns(graph_.tasks.size(), 0);
    const auto for_each_after = [&](TaskId task, auto&& visit) {
      if (next[task] != kNone) visit(next[task]);
      for (auto [edge, end] = boost::out_edges(task, graph_.edges); edge != end; ++edge) {
        const TaskId after = boost::target(*edge, graph_.edges);
        if (graph_.tasks[after].host != graph_.tasks[task].host) visit(after);
      }
    };
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) for_each_after(task, [&](TaskId after) { ++waits[after]; });
    std::vector<TaskId> issued;
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      if (waits[task] == 0) issued.push_back(task);
    }
    for (std::size_t i = 0; i < issued.size(); ++i) {
      const TaskId task = issued[i];
      for_each_after(task, [&](TaskId after) {
        begin_ns[after] = std::max(begin_ns[after], begin_ns[task] + cost(task).issue_ns);
        if (--waits[after] == 0) issued.push_back(after);
      });
      times_[task].end_ns = begin_ns[task] + cost(task).span_ns;  // no earlier than this
    }
    for (const TaskId task : issued) release(task, begin_ns[task] + cost(task).first_launch_ns);
  }

  /// One of the things that `task` waits for happened at `time_ns`.
  void release(TaskId task, std::int64_t time_ns) {
    times_[task].start_ns = std::max(times_[task].start_ns, time_ns);
    if (--waits_for_[task] == 0) start(task);
  }

  void start(TaskId task) {
    const std::uint32_t group = graph_.tasks[task].group;
    if (group == kNone) return finish(task, times_[task].start_ns);
    group_ready_ns_[group] = std::max(group_ready_ns_[group], times_[task].start_ns);
    next_in_group_[task] = group_first_[group];
    group_first_[group] = task;
    if (--group_waits_for_[group] > 0) return;
    for (TaskId member = group_first_[group]; member != kNone; member = next_in_group_[member]) {
      finish(member, group_ready_ns_[group]);
    }
  }

  void finish(TaskId task, std::int64_t from_ns) {
    times_[task].end_ns = std::max(times_[task].end_ns, from_ns + cost(task).device_ns);
    finishes_.push({times_[task].end_ns, task});
  }

  const TaskGraph& graph_;
  std::span<const TaskCost> costs_;
  bool hosts_matter_ = false;
  std::vector<TaskId> next_on_stream_;
  std::vector<TaskTimes> times_;
  std::vector<std::uint32_t> waits_for_;  // by task: unfinished predecessors, its issue
  std::vector<std::int64_t> group_ready_ns_;
  std::vector<std::uint32_t> group_waits_for_;
  std::vector<TaskId> group_first_, next_in_group_;  // the members that are ready, as a list
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> finishes_;
};

}  // namespace

std::vector<TaskTimes> run(const TaskGraph& graph, std::span<const TaskCost> costs) { return Engine(graph, costs).run(); }

}  // namespace pdl
