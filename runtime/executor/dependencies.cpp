#include "runtime/executor/dependencies.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/spec/error.hpp"

namespace pdl {
namespace {

/// Tasks of one (kind, stage, micro-batch).
class TaskIndex {
 public:
  explicit TaskIndex(const TaskGraph& graph) {
    for (TaskId t = 0; t < graph.tasks.size(); ++t) {
      const Task& task = graph.tasks[t];
      tasks_[{task.kind, task.stage, task.microbatch}] = t;
    }
  }

  /// kNone if there is none. The first kind that exists.
  TaskId find(std::initializer_list<TaskKind> kinds, int stage, int microbatch) const {
    for (const TaskKind kind : kinds) {
      const auto found = tasks_.find({kind, stage, microbatch});
      if (found != tasks_.end()) return found->second;
    }
    return kNone;
  }

 private:
  std::map<std::tuple<TaskKind, int, int>, TaskId> tasks_;
};

/// For every task, by stream: one more than the place in that stream of the last task that has surely finished when
/// this one has finished.
class FinishedBefore {
 public:
  FinishedBefore(const TaskGraph& graph, const std::vector<std::vector<TaskId>>& before)
      : streams_(graph.workers * kStreamsPerWorker),
        clocks_(graph.tasks.size() * streams_, 0),
        place_(graph.tasks.size()),
        previous_(graph.tasks.size(), kNone) {
    const std::size_t count = graph.tasks.size();
    find_places(graph);
    const std::vector<std::vector<TaskId>> known = known_before(graph, before);
    std::vector<std::vector<TaskId>> after(count);
    std::vector<std::size_t> missing(count);
    std::vector<TaskId> ready;
    for (TaskId t = 0; t < count; ++t) {
      for (const TaskId b : known[t]) after[b].push_back(t);
      missing[t] = known[t].size();
      if (missing[t] == 0) ready.push_back(t);
    }
    std::size_t done = 0;
    while (!ready.empty()) {
      const TaskId t = ready.back();
      ready.pop_back();
      ++done;
      for (const TaskId b : known[t]) merge(t, b);
      for (const TaskId member : members(graph, t)) {
        clocks_[t * streams_ + graph.tasks[member].stream] = place_[member];
      }
      for (const TaskId a : after[t]) {
        if (--missing[a] == 0) ready.push_back(a);
      }
    }
    if (done != count) {
      throw CannotRun("deadlock: " + std::to_string(count - done) +
                      " tasks wait for each other, in the order of their streams or for a buffer");
    }
  }

  /// True if `first` has finished whenever `second` has.
  bool implies(TaskId second, TaskId first, std::uint32_t stream_of_first) const {
    return clocks_[second * streams_ + stream_of_first] >= place_[first];
  }
  TaskId previous_on_stream(TaskId task) const { return previous_[task]; }

 private:
  void find_places(const TaskGraph& graph) {
    std::vector<TaskId> newest(streams_, kNone);
    groups_.resize(graph.groups);
    for (TaskId t = 0; t < graph.tasks.size(); ++t) {
      const Task& task = graph.tasks[t];
      previous_[t] = std::exchange(newest[task.stream], t);
      place_[t] = previous_[t] == kNone ? 1 : place_[previous_[t]] + 1;
      if (task.group != kNone) groups_[task.group].push_back(t);
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
    const auto [begin, end] = boost::out_edges(t, graph.edges);
    for (auto e = begin; e != end; ++e) before[boost::target(*e, graph.edges)].push_back(t);
  }
  return before;
}

}  // namespace

std::vector<TaskPair> buffer_hazards(const Plan& plan) {
  using enum TaskKind;
  const TaskIndex index(plan.graph);
  const int microbatches = static_cast<int>(plan.microbatch_rows.size());
  std::vector<TaskPair> pairs;
  const auto add = [&](TaskId reader, TaskId writer) {
    if (reader != kNone && writer != kNone) pairs.emplace_back(reader, writer);
  };
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const int slots = plan.stages[static_cast<std::size_t>(s)].slots;
    for (int m = 0; m + slots < microbatches; ++m) {
      const int next = m + slots;
      const TaskId last_reader = index.find({backward_weight, backward}, s, m);
      const TaskId next_forward = index.find({forward}, s, next);
      const TaskId next_backward = index.find({backward_input, backward}, s, next);
      const auto incoming = [&](TaskKind receive, TaskKind send, int sender) {
        const TaskId posted = index.find({receive}, s, next);
        return posted != kNone ? posted : index.find({send}, sender, next);
      };
      add(last_reader, next_forward);                                            // outputs of the layers
      add(last_reader, incoming(receive_forward, send_forward, s - 1));          // input
      add(last_reader, incoming(receive_backward, send_backward, s + 1));        // output gradient
      add(last_reader, next_backward);                                           // gradients kept for backward_weight
      add(index.find({send_forward}, s, m), next_forward);                       // output of the last layer
      add(index.find({send_backward}, s, m), next_backward);                     // input gradient
    }
  }
  return pairs;
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
