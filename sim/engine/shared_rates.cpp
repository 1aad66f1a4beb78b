#include "sim/engine/shared_rates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/engine/deadlock.hpp"
#include "sim/engine/multiprocessors.hpp"
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

/// Something on a GPU whose multiprocessors are shared: a kernel can begin, or blocks end.
struct Wake {
  std::int64_t time_ns;
  std::int32_t worker;
  TaskId task;                  // whose next kernel can begin, or kNone
  std::uint32_t group = kNone;  // a collective that may have ended, if it still has this pace
  std::uint32_t pace = 0;
  bool operator>(const Wake& other) const {
    return std::tie(time_ns, worker, task, group, pace) >
           std::tie(other.time_ns, other.worker, other.task, other.group, other.pace);
  }
};

/// A collective that all its GPUs have begun. What is left of it, alone, shrinks at the pace of its slowest GPU.
struct Running {
  double left_ns = 0;
  double slowdown = 1;
  std::int64_t since_ns = 0;
  std::uint32_t pace = 0;        // how often the pace has changed
  std::uint32_t at_slowest = 0;  // GPUs that slow it as much as any
};

/// The compute task that a GPU with shared multiprocessors is at.
struct Progress {
  TaskId task = kNone;
  std::size_t kernel = 0;
  std::int64_t issue_ns = 0;  // of the kernels before this one
};

class Engine {
 public:
  Engine(const TaskGraph& graph, std::span<const TaskCost> costs, const SharedMultiprocessors& shared,
         std::span<const std::int64_t> issue_ns)
      : graph_(graph),
        costs_(costs),
        shared_(shared),
        gpus_(graph.workers, Multiprocessors(shared.count)),
        progress_(graph.workers),
        slows_(graph.workers, 0),
        on_gpu_(graph.workers, kNone),
        running_(graph.groups),
        issue_ns_(issue_ns),
        next_on_stream_(next_on_stream(graph)),
        times_(graph.tasks.size()),
        waits_for_(graph.tasks.size(), 0),
        group_ready_ns_(graph.groups, 0),
        group_waits_for_(graph.groups, 0),
        group_first_(graph.groups, kNone) {
    count_what_tasks_wait_for();
  }

  // The loop: take the earliest finish, and start what it was holding back.
  std::vector<TaskTimes> run() {
    if (!issue_ns_.empty()) issue();
    start_what_waits_for_nothing();
    std::size_t finished = 0;
    for (; !finishes_.empty() || !wakes_.empty(); ++finished) {
      while (!wakes_.empty() && (finishes_.empty() || wakes_.top().time_ns < finishes_.top().time_ns)) wake();
      if (finishes_.empty()) break;
      const Finish now = finishes_.top();
      finishes_.pop();
      if (holds_multiprocessors(now.task)) give_back_multiprocessors(now);
      for (const TaskId after : graph_.edges.after(now.task)) release(after, now.time_ns);
      if (next_on_stream_[now.task] != kNone) release(next_on_stream_[now.task], now.time_ns);
    }
    if (finished != graph_.tasks.size()) throw_deadlock(graph_);
    return std::move(times_);
  }

 private:
  const TaskCost& cost(TaskId task) const { return costs_[graph_.tasks[task].work]; }

  void count_what_tasks_wait_for() {
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      for (const TaskId after : graph_.edges.after(task)) ++waits_for_[after];
      if (next_on_stream_[task] != kNone) ++waits_for_[next_on_stream_[task]];
      if (const std::uint32_t group = graph_.tasks[task].group; group != kNone) ++group_waits_for_[group];
    }
    next_in_group_.assign(graph_.groups > 0 ? graph_.tasks.size() : 0, kNone);
  }

  void start_what_waits_for_nothing() {
    std::vector<TaskId> free;
    for (TaskId task = 0; task < graph_.tasks.size(); ++task) {
      if (waits_for_[task] == 0) free.push_back(task);
    }
    for (const TaskId task : free) start(task);
  }

  /// A task starts no earlier than its first launch, and ends no earlier than its last one allows.
  void issue() {
    for (TaskId task = 0; task < graph_.tasks.size(); ++task)
      times_[task] = {issue_ns_[task] + cost(task).first_launch_ns, issue_ns_[task] + cost(task).span_ns};
  }

  /// One of the things that `task` waits for happened at `time_ns`.
  void release(TaskId task, std::int64_t time_ns) {
    times_[task].start_ns = std::max(times_[task].start_ns, time_ns);
    if (--waits_for_[task] == 0) start(task);
  }

  void start(TaskId task) {
    if (!kernels(task).empty()) {  // when its time has come
      const std::int64_t behind_ns = is_pipeline_transfer(graph_.tasks[task].kind) ? shared_.launch_latency_ns : 0;
      wakes_.push({times_[task].start_ns + behind_ns, graph_.tasks[task].worker, task});
      return;
    }
    begin(task);
  }

  void begin(TaskId task) {
    const std::uint32_t group = graph_.tasks[task].group;
    if (group == kNone) return finish(task, times_[task].start_ns);
    group_ready_ns_[group] = std::max(group_ready_ns_[group], times_[task].start_ns);
    if (graph_.works[graph_.tasks[task].work].eager) {
      finish(task, times_[task].start_ns);
    } else {
      next_in_group_[task] = group_first_[group];
      group_first_[group] = task;
    }
    if (--group_waits_for_[group] > 0) return;
    if (is_collective(graph_.tasks[task].kind) && holds_multiprocessors(task)) return begin_collective(group, task);
    for (TaskId member = group_first_[group]; member != kNone; member = next_in_group_[member]) {
      finish(member, group_ready_ns_[group]);
    }
  }

  void finish(TaskId task, std::int64_t from_ns) {
    times_[task].end_ns = std::max(times_[task].end_ns, from_ns + cost(task).device_ns);
    finishes_.push({times_[task].end_ns, task});
  }

  // ---- GPUs whose multiprocessors are shared by compute and collectives

  const std::vector<KernelCost>& kernels(TaskId task) const { return shared_.kernels[graph_.tasks[task].work]; }

  bool holds_multiprocessors(TaskId task) const {
    const TaskKind kind = graph_.tasks[task].kind;
    return (is_collective(kind) || is_pipeline_transfer(kind)) && !kernels(task).empty();
  }

  void give_back_multiprocessors(const Finish& finished) {
    const std::int32_t worker = graph_.tasks[finished.task].worker;
    gpus_[static_cast<std::size_t>(worker)].remove(finished.task, finished.time_ns);
    look_at(worker, finished.time_ns);
  }

  void begin_collective(std::uint32_t group, TaskId task) {
    Running& collective = running_[group];
    collective = {static_cast<double>(cost(task).device_ns), 1, group_ready_ns_[group]};
    for (TaskId member = group_first_[group]; member != kNone; member = next_in_group_[member]) {
      on_gpu_[static_cast<std::size_t>(graph_.tasks[member].worker)] = group;
    }
    set_pace(group, collective.since_ns);
  }

  void set_pace(std::uint32_t group, std::int64_t now_ns) {
    Running& collective = running_[group];
    double slowdown = 1;
    collective.at_slowest = 0;
    for (TaskId member = group_first_[group]; member != kNone; member = next_in_group_[member]) {
      const double of_gpu = 1 + slows_[static_cast<std::size_t>(graph_.tasks[member].worker)];
      if (of_gpu > slowdown) collective.at_slowest = 0;
      slowdown = std::max(slowdown, of_gpu);
      if (of_gpu == slowdown) ++collective.at_slowest;
    }
    if (slowdown == collective.slowdown && collective.pace > 0) return;
    collective.left_ns =
        std::max(0.0, collective.left_ns - static_cast<double>(now_ns - collective.since_ns) / collective.slowdown);
    collective.slowdown = slowdown;
    collective.since_ns = now_ns;
    ++collective.pace;
    const std::int64_t end_ns = now_ns + std::llround(collective.left_ns * slowdown);
    wakes_.push({end_ns, graph_.tasks[group_first_[group]].worker, kNone, group, collective.pace});
  }

  void end_collective(const Wake& now) {
    if (running_[now.group].pace != now.pace) return;
    for (TaskId member = group_first_[now.group]; member != kNone; member = next_in_group_[member]) {
      on_gpu_[static_cast<std::size_t>(graph_.tasks[member].worker)] = kNone;
      times_[member].end_ns = std::max(times_[member].end_ns, now.time_ns);
      finishes_.push({times_[member].end_ns, member});
    }
  }

  /// Another kernel, or none, runs on a GPU.
  void beside_collectives(std::int32_t worker, double slows, std::int64_t now_ns) {
    const auto w = static_cast<std::size_t>(worker);
    if (slows_[w] == slows) return;
    const double before = std::exchange(slows_[w], slows);
    if (on_gpu_[w] == kNone) return;
    // Of many GPUs that do the same only the first that is slower, and the last that is faster, change the pace.
    Running& collective = running_[on_gpu_[w]];
    if (1 + before == collective.slowdown) --collective.at_slowest;
    if (1 + slows == collective.slowdown) ++collective.at_slowest;
    if (1 + slows > collective.slowdown || collective.at_slowest == 0) set_pace(on_gpu_[w], now_ns);
  }

  /// The earliest thing that happens on a shared GPU.
  void wake() {
    const Wake now = wakes_.top();
    wakes_.pop();
    if (now.group != kNone) return end_collective(now);
    Multiprocessors& gpu = gpus_[static_cast<std::size_t>(now.worker)];
    gpu.advance(now.time_ns);
    if (now.task != kNone) add_grid(gpu, now);
    look_at(now.worker, now.time_ns);
  }

  void add_grid(Multiprocessors& gpu, const Wake& now) {
    if (holds_multiprocessors(now.task)) {
      return gpu.add({.id = now.task, .blocks = kernels(now.task).back().blocks, .stays = true}, now.time_ns);
    }
    Progress& progress = progress_[static_cast<std::size_t>(now.worker)];
    if (progress.task != now.task) progress = {now.task, 0};
    const KernelCost& kernel = kernels(now.task)[progress.kernel];
    beside_collectives(now.worker, kernel.slows_collectives, now.time_ns);
    gpu.add({now.task, kernel.blocks, kernel.blocks_per_multiprocessor, kernel.device_ns, false}, now.time_ns);
  }

  /// What has come of the last change: collectives that have their places, kernels that have ended.
  void look_at(std::int32_t worker, std::int64_t now_ns) {
    Multiprocessors& gpu = gpus_[static_cast<std::size_t>(worker)];
    for (const TaskId task : gpu.took_place()) {
      times_[task].start_ns = now_ns;
      begin(task);
    }
    for (const TaskId task : gpu.ended()) next_kernel(worker, task, now_ns);
    for (const std::int64_t end_ns : gpu.ends_ns()) wakes_.push({end_ns, worker, kNone});
  }

  void next_kernel(std::int32_t worker, TaskId task, std::int64_t now_ns) {
    Progress& progress = progress_[static_cast<std::size_t>(worker)];
    beside_collectives(worker, 0, now_ns);
    if (++progress.kernel == kernels(task).size()) {
      times_[task].end_ns = std::max(times_[task].end_ns, now_ns);
      finishes_.push({times_[task].end_ns, task});
      return;
    }
    progress.issue_ns += kernels(task)[progress.kernel - 1].issue_ns;
    const std::int64_t begun_ns = issue_ns_.empty() ? 0 : issue_ns_[task];
    const std::int64_t issued_ns = begun_ns + progress.issue_ns + kernels(task)[progress.kernel].issue_ns;
    wakes_.push({std::max(now_ns, issued_ns + shared_.launch_latency_ns), worker, task});
  }

  const TaskGraph& graph_;
  std::span<const TaskCost> costs_;
  const SharedMultiprocessors& shared_;
  std::vector<Multiprocessors> gpus_;       // by worker
  std::vector<Progress> progress_;          // by worker
  std::vector<double> slows_;               // by worker: what its kernel adds to the time of a collective
  std::vector<std::uint32_t> on_gpu_;       // by worker: the group of the collective that runs there
  std::vector<Running> running_;            // by group
  std::span<const std::int64_t> issue_ns_;  // by task: its host begins to issue it; or empty
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  std::vector<TaskId> next_on_stream_;
  std::vector<TaskTimes> times_;
  std::vector<std::uint32_t> waits_for_;  // by task: unfinished predecessors
  std::vector<std::int64_t> group_ready_ns_;
  std::vector<std::uint32_t> group_waits_for_;
  std::vector<TaskId> group_first_, next_in_group_;  // the members that are ready, as a list
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> finishes_;
};

}  // namespace

std::vector<TaskTimes> run_at_shared_rates(const TaskGraph& graph, std::span<const TaskCost> costs,
                                           const SharedMultiprocessors& shared,
                                           std::span<const std::int64_t> issue_ns) {
  return Engine(graph, costs, shared, issue_ns).run();
}

}  // namespace pdl
