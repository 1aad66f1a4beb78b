#include "runtime/executor/dependencies.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "runtime/comm/message_channel.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

/// Tasks by (kind, stage, micro-batch).
class TaskIndex {
 public:
  explicit TaskIndex(const Plan& plan)
      : stages_(plan.stages.size()),
        microbatches_(plan.microbatch_rows.size()),
        tasks_(kKinds * stages_ * microbatches_, kNone) {
    for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
      const Task& task = plan.graph.tasks[t];
      if (task.microbatch >= 0 && static_cast<std::size_t>(task.kind) < kKinds)
        tasks_[place(task.kind, task.stage, task.microbatch)] = t;
    }
  }

  /// kNone if there is none. The first kind that exists. Kinds of a pipeline without replicas only.
  TaskId find(std::initializer_list<TaskKind> kinds, int stage, int microbatch) const {
    if (stage < 0 || stage >= static_cast<int>(stages_)) return kNone;
    for (const TaskKind kind : kinds) {
      const TaskId found = tasks_[place(kind, stage, microbatch)];
      if (found != kNone) return found;
    }
    return kNone;
  }

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(TaskKind::receive_backward) + 1;

  std::size_t place(TaskKind kind, int stage, int microbatch) const {
    return (static_cast<std::size_t>(kind) * stages_ + static_cast<std::size_t>(stage)) * microbatches_ +
           static_cast<std::size_t>(microbatch);
  }

  std::size_t stages_, microbatches_;
  std::vector<TaskId> tasks_;
};

std::string task_text(const TaskGraph& graph, TaskId id) {
  return "worker " + std::to_string(graph.tasks[id].worker) + " " + task_action(graph.tasks[id]);
}

/// `missing[t]`: tasks before t that have not finished. Each of a circle of such tasks waits for the next.
[[noreturn]] void refuse_circle(const TaskGraph& graph, const std::vector<std::vector<TaskId>>& before,
                                const std::vector<std::size_t>& missing) {
  const auto blocked = [&](TaskId t) { return missing[t] > 0; };
  TaskId t = 0;
  while (!blocked(t)) ++t;
  std::vector<TaskId> path;
  std::vector<bool> seen(graph.tasks.size(), false);
  for (; !seen[t]; t = *std::find_if(before[t].begin(), before[t].end(), blocked)) {
    seen[t] = true;
    path.push_back(t);
  }
  std::string text = "deadlock: ";
  for (auto at = std::find(path.begin(), path.end(), t); at != path.end(); ++at)
    text += task_text(graph, *at) + " waits for ";
  throw CannotRun(text + task_text(graph, t));
}

/// Calls `visit` for every task after those that are before it. Throws CannotRun if there is no such order.
template <typename Visit>
void visit_in_order(const TaskGraph& graph, const std::vector<std::vector<TaskId>>& before, Visit visit) {
  const std::size_t count = graph.tasks.size();
  std::vector<std::vector<TaskId>> after(count);
  std::vector<std::size_t> missing(count);
  std::vector<TaskId> ready;
  for (TaskId t = 0; t < count; ++t) {
    for (const TaskId b : before[t]) after[b].push_back(t);
    missing[t] = before[t].size();
    if (missing[t] == 0) ready.push_back(t);
  }
  std::size_t done = 0;
  while (!ready.empty()) {
    const TaskId t = ready.back();
    ready.pop_back();
    ++done;
    visit(t);
    for (const TaskId a : after[t]) {
      if (--missing[a] == 0) ready.push_back(a);
    }
  }
  if (done != count) refuse_circle(graph, before, missing);
}

/// A host issues its tasks one by one, and a task of another host can be waited for once that host has issued it.
void check_order_of_issue(const TaskGraph& graph, const std::vector<std::vector<TaskId>>& before) {
  std::vector<std::vector<TaskId>> issued_before(graph.tasks.size());
  std::vector<TaskId> newest(graph.hosts, kNone);
  for (TaskId t = 0; t < graph.tasks.size(); ++t) {
    const std::uint32_t host = graph.tasks[t].host;
    if (newest[host] != kNone) issued_before[t].push_back(newest[host]);
    newest[host] = t;
    for (const TaskId b : before[t]) {
      if (graph.tasks[b].host != host) issued_before[t].push_back(b);
    }
  }
  visit_in_order(graph, issued_before, [](TaskId) {});
}

/// For every task, by stream: one more than the place in that stream of the last task that has surely finished when
/// this one has finished.
class FinishedBefore {
 public:
  FinishedBefore(const TaskGraph& graph, const std::vector<std::vector<TaskId>>& before)
      : streams_(graph.workers * kStreamsPerWorker),
        clocks_(graph.tasks.size() * streams_, 0),
        place_(graph.tasks.size()),
        previous_(graph.tasks.size(), kNone) {
    find_places(graph);
    const std::vector<std::vector<TaskId>> known = known_before(graph, before);
    visit_in_order(graph, known, [&](TaskId t) {
      for (const TaskId b : known[t]) merge(t, b);
      for (const TaskId member : members(graph, t)) {
        if (graph.tasks[member].stream == kNone) continue;
        clocks_[t * streams_ + graph.tasks[member].stream] = place_[member];
      }
    });
  }

  /// True if `first` has finished whenever `second` has.
  bool implies(TaskId second, TaskId first, std::uint32_t stream_of_first) const {
    return stream_of_first != kNone && clocks_[second * streams_ + stream_of_first] >= place_[first];
  }
  TaskId previous_on_stream(TaskId task) const { return previous_[task]; }

 private:
  void find_places(const TaskGraph& graph) {
    std::vector<TaskId> newest(streams_, kNone);
    groups_.resize(graph.groups);
    for (TaskId t = 0; t < graph.tasks.size(); ++t) {
      const Task& task = graph.tasks[t];
      if (task.group != kNone) groups_[task.group].push_back(t);
      if (task.stream == kNone) continue;  // a sleep of its host
      previous_[t] = std::exchange(newest[task.stream], t);
      place_[t] = previous_[t] == kNone ? 1 : place_[previous_[t]] + 1;
    }
  }

  /// The task itself, and those that end together with it: a message has been read when it has arrived.
  std::vector<TaskId> members(const TaskGraph& graph, TaskId task) const {
    const std::uint32_t group = graph.tasks[task].group;
    return group == kNone ? std::vector<TaskId>{task} : groups_[group];
  }

  std::vector<std::vector<TaskId>> known_before(const TaskGraph& graph,
                                                const std::vector<std::vector<TaskId>>& before) const {
    std::vector<std::vector<TaskId>> known(graph.tasks.size());
    for (TaskId t = 0; t < graph.tasks.size(); ++t) {
      for (const TaskId member : members(graph, t)) {
        known[t].insert(known[t].end(), before[member].begin(), before[member].end());
        if (previous_[member] != kNone) known[t].push_back(previous_[member]);
      }
    }
    return known;
  }

  void merge(TaskId into, TaskId from) {
    for (std::size_t s = 0; s < streams_; ++s) {
      std::uint32_t& place = clocks_[into * streams_ + s];
      place = std::max(place, clocks_[from * streams_ + s]);
    }
  }

  std::size_t streams_;
  std::vector<std::uint32_t> clocks_;  // [task][stream]
  std::vector<std::uint32_t> place_;   // in its stream, from 1
  std::vector<TaskId> previous_;       // on its stream
  std::vector<std::vector<TaskId>> groups_;
};

std::vector<std::vector<TaskId>> edges_before(const TaskGraph& graph) {
  std::vector<std::vector<TaskId>> before(graph.tasks.size());
  for (TaskId t = 0; t < graph.tasks.size(); ++t) {
    for (const TaskId after : graph.edges.after(t)) before[after].push_back(t);
  }
  return before;
}

}  // namespace

std::vector<TaskPair> buffer_hazards(const Plan& plan) {
  using enum TaskKind;
  const TaskIndex index(plan);
  std::vector<TaskPair> pairs;
  const auto add = [&](TaskId reader, TaskId writer) {
    if (reader != kNone && writer != kNone) pairs.emplace_back(reader, writer);
  };
  /// The tasks of `now` on stage s must not write before those of `earlier`, in the same slot, have read.
  const auto add_pairs = [&](int s, int earlier, int now) {
    const bool upper_is_here = static_cast<std::size_t>(s) + 1 < plan.stages.size() &&
                               is_local_boundary(plan.stages, static_cast<std::size_t>(s) + 1);
    const TaskId forward_now = index.find({forward}, s, now);
    const TaskId backward_now = index.find({backward_input, backward}, s, now);
    const auto incoming = [&](TaskKind receive, TaskKind send, int sender) {
      const TaskId posted = index.find({receive}, s, now);
      return posted != kNone ? posted : index.find({send}, sender, now);
    };
    const TaskId gradient_now = upper_is_here ? index.find({backward_input, backward}, s + 1, now)
                                              : incoming(receive_backward, send_backward, s + 1);
    // A stage above on this worker reads the output in place, for its weight gradient too.
    for (const int reader : {s, s + 1}) {
      if (reader > s && !upper_is_here) continue;
      const TaskId last = index.find({backward_weight, backward}, reader, earlier);
      add(last, incoming(receive_forward, send_forward, s - 1));  // input
      add(last, forward_now);                                     // outputs of the layers
      add(last, gradient_now);                                    // gradient of the output
      add(last, backward_now);                                    // gradients kept for backward_weight
    }
    add(index.find({send_forward}, s, earlier), forward_now);    // output of the last layer
    add(index.find({send_backward}, s, earlier), backward_now);  // input gradient
  };

  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const std::vector<std::int32_t>& slots = plan.slots[static_cast<std::size_t>(s)];
    std::vector<std::pair<TaskId, int>> forwards;  // in their order on the worker
    for (int m = 0; m < static_cast<int>(slots.size()); ++m) forwards.emplace_back(index.find({forward}, s, m), m);
    std::sort(forwards.begin(), forwards.end());
    std::vector<int> user(static_cast<std::size_t>(plan.stages[static_cast<std::size_t>(s)].slots), -1);
    for (const auto& [task, m] : forwards) {
      int& of_slot = user[static_cast<std::size_t>(slots[static_cast<std::size_t>(m)])];
      if (of_slot >= 0) add_pairs(s, of_slot, m);
      of_slot = m;
    }
  }
  return pairs;
}

void check_message_order(const Plan& plan) {
  struct Orders {
    std::vector<TaskId> sent, received;
  };
  const TaskGraph& graph = plan.graph;
  std::map<MessageChannel, Orders> channels;
  for (TaskId t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (!is_pipeline_transfer(task.kind) || task.group == kNone) continue;
    Orders& orders = channels[channel_of(graph, task)];
    (is_send(task.kind) ? orders.sent : orders.received).push_back(t);
  }
  const auto listed = [&](const std::vector<TaskId>& tasks, std::size_t from) {
    std::string text;
    for (std::size_t i = from; i < std::min(from + 3, tasks.size()); ++i)
      text += (i > from ? ", " : "") + task_action(graph.tasks[tasks[i]]);
    return text + (from + 3 < tasks.size() ? ", ..." : "");
  };
  for (const auto& [channel, orders] : channels) {
    for (std::size_t i = 0; i < orders.sent.size(); ++i) {
      if (i < orders.received.size() && graph.tasks[orders.sent[i]].group == graph.tasks[orders.received[i]].group)
        continue;
      throw CannotRun("transport " + to_string(plan.spec.transport) + " matches messages by their order: worker " +
                      std::to_string(channel.from) + " sends " + listed(orders.sent, i) + ", worker " +
                      std::to_string(channel.to) + " receives " + listed(orders.received, i) +
                      " (transport copy takes any order)");
    }
  }
}

Dependencies make_dependencies(const Plan& plan, std::span<const TaskPair> hazards) {
  const TaskGraph& graph = plan.graph;
  const auto stream = [&](TaskId t) { return graph.tasks[t].stream; };
  std::vector<std::vector<TaskId>> before = edges_before(graph);
  std::size_t added = 0;
  {
    const FinishedBefore by_graph(graph, before);
    const std::vector<std::vector<TaskId>> graph_before = before;
    for (const auto& [reader, writer] : hazards) {
      const TaskId previous = by_graph.previous_on_stream(writer);
      bool follows = previous != kNone && by_graph.implies(previous, reader, stream(reader));
      for (const TaskId b : graph_before[writer]) follows = follows || by_graph.implies(b, reader, stream(reader));
      if (follows) continue;
      before[writer].push_back(reader);
      ++added;
    }
  }
  const FinishedBefore finished(graph, before);
  check_order_of_issue(graph, before);
  Dependencies result;
  result.added_for_buffers = added;
  result.is_awaited.assign(graph.tasks.size(), false);
  for (TaskId t = 0; t < graph.tasks.size(); ++t) {
    result.offsets.push_back(static_cast<std::uint32_t>(result.waits.size()));
    std::vector<TaskId>& candidates = before[t];
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    const TaskId previous = finished.previous_on_stream(t);
    for (const TaskId b : candidates) {
      bool follows = previous != kNone && finished.implies(previous, b, stream(b));
      for (const TaskId other : candidates) follows = follows || (other != b && finished.implies(other, b, stream(b)));
      if (follows) continue;
      result.waits.push_back(b);
      result.is_awaited[b] = true;
    }
  }
  result.offsets.push_back(static_cast<std::uint32_t>(result.waits.size()));
  return result;
}

}  // namespace pdl
