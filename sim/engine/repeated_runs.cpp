#include "sim/engine/repeated_runs.hpp"

#include <algorithm>
#include <limits>

#include "sim/engine/deadlock.hpp"
#include "sim/engine/order.hpp"

namespace pdl {
namespace {

/// By task: the tasks that it waits for.
class Befores {
 public:
  explicit Befores(std::size_t tasks) : of_task_(tasks) {}
  void add(TaskId before, TaskId task) { of_task_[task].push_back(before); }
  const std::vector<TaskId>& of(TaskId task) const { return of_task_[task]; }

 private:
  std::vector<std::vector<TaskId>> of_task_;
};

Befores device_befores(const TaskGraph& graph) {
  Befores befores(graph.tasks.size());
  const std::vector<TaskId> next = next_on_stream(graph);
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    if (next[task] != kNone) befores.add(task, next[task]);
    for (const TaskId after : graph.edges.after(task)) befores.add(task, after);
  }
  return befores;
}

/// Tasks that are issued by another host must have been issued.
Befores issue_befores(const TaskGraph& graph) {
  Befores befores(graph.tasks.size());
  const std::vector<TaskId> next = next_on_host(graph);
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    if (next[task] != kNone) befores.add(task, next[task]);
    for (const TaskId after : graph.edges.after(task)) {
      if (graph.tasks[after].host != graph.tasks[task].host) befores.add(task, after);
    }
  }
  return befores;
}

/// Groups of tasks that end together, in an order in which all that each waits for is before it; shorter than all tasks
/// if there is a cycle. Without `groups` each task is alone.
std::vector<std::vector<TaskId>> topological_order(const TaskGraph& graph, const Befores& befores, bool groups) {
  const auto tasks = static_cast<TaskId>(graph.tasks.size());
  const auto group_of = [&](TaskId task) { return groups ? graph.tasks[task].group : kNone; };
  std::vector<std::vector<TaskId>> afters(tasks), members(groups ? graph.groups : 0), order;
  std::vector<std::size_t> waits_for(tasks), group_waits_for(members.size());
  for (TaskId task = 0; task < tasks; ++task) {
    waits_for[task] = befores.of(task).size();
    for (const TaskId before : befores.of(task)) afters[before].push_back(task);
    if (group_of(task) != kNone) ++group_waits_for[group_of(task)];
  }
  std::vector<TaskId> free;
  for (TaskId task = tasks; task-- > 0;) {
    if (waits_for[task] == 0) free.push_back(task);
  }
  while (!free.empty()) {
    const TaskId task = free.back();
    free.pop_back();
    std::vector<TaskId> ends = {task};
    if (const std::uint32_t group = group_of(task); group != kNone) {
      members[group].push_back(task);
      if (--group_waits_for[group] > 0) continue;
      ends = members[group];
    }
    for (const TaskId member : ends) {
      for (const TaskId after : afters[member]) {
        if (--waits_for[after] == 0) free.push_back(after);
      }
    }
    order.push_back(std::move(ends));
  }
  return order;
}

/// Of a worker's tasks in the second run.
struct SecondExtent {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = 0;
};

void measure(const std::vector<SecondExtent>& extents, LengthOfRun& second) {
  for (const SecondExtent& extent : extents) {
    second.last_end_ns = std::max(second.last_end_ns, extent.last_ns);
    if (second.by_worker)
      second.longest_worker_ns = std::max(second.longest_worker_ns, extent.last_ns - extent.first_ns);
  }
}

}  // namespace

RepeatedRuns::RepeatedRuns(const TaskGraph& graph) : workers_(graph.workers) {
  const Befores befores = device_befores(graph);
  std::vector<std::uint32_t> places(graph.tasks.size(), 0);
  for (const std::vector<TaskId>& together : topological_order(graph, befores, /*groups=*/true)) {
    for (const TaskId task : together) {
      for (const TaskId before : befores.of(task)) befores_.push_back(places[before]);
      places[task] = static_cast<std::uint32_t>(steps_.size());
      steps_.push_back({task, graph.tasks[task].work, static_cast<std::uint32_t>(graph.tasks[task].worker),
                        static_cast<std::uint32_t>(together.size()), static_cast<std::uint32_t>(befores_.size())});
    }
  }
  if (steps_.size() != graph.tasks.size()) throw_deadlock(graph);
  for (const Task& task : graph.tasks) spans_.push_back(span_of(task, {}));
  order_issues(graph);
}

void RepeatedRuns::order_issues(const TaskGraph& graph) {
  const Befores befores = issue_befores(graph);
  for (const std::vector<TaskId>& alone : topological_order(graph, befores, /*groups=*/false)) {
    const TaskId task = alone.front();
    issues_before_.insert(issues_before_.end(), befores.of(task).begin(), befores.of(task).end());
    issues_.push_back({task, graph.tasks[task].work, static_cast<std::uint32_t>(issues_before_.size())});
  }
}

std::vector<std::int64_t> RepeatedRuns::issue_begins_ns(std::span<const TaskCost> costs) const {
  std::vector<std::int64_t> begin_ns(steps_.size()), end_ns(steps_.size());
  std::uint32_t before = 0;
  for (const Issue& issue : issues_) {
    std::int64_t begin = 0;
    for (; before < issue.befores_end; ++before) begin = std::max(begin, end_ns[issues_before_[before]]);
    begin_ns[issue.task] = begin;
    end_ns[issue.task] = begin + costs[issue.work].issue_ns;
  }
  return begin_ns;
}

/// The end of each step is that of the run and, where there is a second one, of that.
template <bool kHosts, bool kTwoRuns>
std::int64_t RepeatedRuns::pass(std::span<const TaskCost> costs, std::span<const std::int64_t> issue_ns,
                                std::span<Span> spans, LengthOfRun* second) const {
  std::vector<std::int64_t> ends_ns(steps_.size()), second_ends_ns(kTwoRuns ? steps_.size() : 0);
  std::vector<SecondExtent> extents(kTwoRuns ? workers_ : 0);
  std::int64_t last_end_ns = 0;
  std::uint32_t before = 0;
  for (std::size_t place = 0; place < steps_.size();) {
    const std::size_t behind = place + steps_[place].members;
    std::int64_t ready_ns = 0, second_ready_ns = 0;  // of all members
    for (std::size_t member = place; member < behind; ++member) {
      const Step& step = steps_[member];
      std::int64_t own_ns = kHosts ? issue_ns[step.task] + costs[step.work].first_launch_ns : 0, second_ns = 0;
      for (; before < step.befores_end; ++before) {
        own_ns = std::max(own_ns, ends_ns[befores_[before]]);
        if constexpr (kTwoRuns) second_ns = std::max(second_ns, second_ends_ns[befores_[before]]);
      }
      if (!spans.empty()) spans[step.task].start_ns = own_ns;
      ready_ns = std::max(ready_ns, own_ns);
      if constexpr (kTwoRuns) {
        extents[step.worker].first_ns = std::min(extents[step.worker].first_ns, second_ns);
        second_ready_ns = std::max(second_ready_ns, second_ns);
      }
    }
    for (; place < behind; ++place) {
      const Step& step = steps_[place];
      std::int64_t end_ns = ready_ns + costs[step.work].device_ns;
      if constexpr (kHosts) end_ns = std::max(end_ns, issue_ns[step.task] + costs[step.work].span_ns);
      ends_ns[place] = end_ns;
      if (!spans.empty()) spans[step.task].end_ns = end_ns;
      last_end_ns = std::max(last_end_ns, end_ns);
      if constexpr (kTwoRuns) {
        second_ends_ns[place] = second_ready_ns + second->device_ns[step.work];
        extents[step.worker].last_ns = std::max(extents[step.worker].last_ns, second_ends_ns[place]);
      }
    }
  }
  if constexpr (kTwoRuns) measure(extents, *second);
  return last_end_ns;
}

std::int64_t RepeatedRuns::run(const TaskGraph& graph, std::span<const TaskCost> costs, std::span<Span> spans,
                               LengthOfRun* second) const {
  if (!hosts_matter(costs, {}))
    return second ? pass<false, true>(costs, {}, spans, second) : pass<false, false>(costs, {}, spans, nullptr);
  if (issues_.size() != steps_.size()) throw_deadlock(graph);
  const std::vector<std::int64_t> issue_ns = issue_begins_ns(costs);
  return second ? pass<true, true>(costs, issue_ns, spans, second) : pass<true, false>(costs, issue_ns, spans, nullptr);
}

}  // namespace pdl
