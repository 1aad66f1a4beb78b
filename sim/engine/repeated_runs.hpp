// One graph at many costs: rows of a sweep, a slow host beside the usual one. In which order its tasks can end, and
// what each waits for, does not depend on the costs: both are worked out once, and a run is a pass over two arrays.
//
//   const RepeatedRuns runs(plan.graph);
//   timeline.spans = runs.spans();
//   runs.run(plan.graph, costs, timeline.spans)          // as run_graph(plan.graph, costs, {}, timeline.spans)
//   runs.run(plan.graph, others, timeline.spans)
//
// The same times as run_graph() to the nanosecond: a property test. For one run that is faster, and takes less memory.
// Units: nanoseconds. Not here: shared multiprocessors, delays of hosts (run.hpp has them).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/engine/run.hpp"

namespace pdl {

class RepeatedRuns {
 public:
  /// Throws CannotRun for a deadlock, as run_graph().
  explicit RepeatedRuns(const TaskGraph& graph);

  /// Of its tasks, without times.
  const std::vector<Span>& spans() const { return spans_; }

  /// The same graph: it may have been moved, and its works may have other sizes. `costs`: by work. `spans`: those of
  /// its tasks; empty: only the last end is asked. `second` may be null. Returns the last end of a task. Throws
  /// CannotRun if hosts take time and wait for each other.
  std::int64_t run(const TaskGraph& graph, std::span<const TaskCost> costs, std::span<Span> spans,
                   LengthOfRun* second = nullptr) const;

 private:
  /// A task, in the order in which tasks can end. Those of a group stand one after another.
  struct Step {
    TaskId task = 0;
    std::uint32_t work = 0;
    std::uint32_t worker = 0;
    std::uint32_t members = 1;  // of the group that begins here
    std::uint32_t befores_end = 0;
  };
  /// A task, in an order in which hosts can issue them.
  struct Issue {
    TaskId task = 0;
    std::uint32_t work = 0;
    std::uint32_t befores_end = 0;
  };

  void order_issues(const TaskGraph& graph);
  std::vector<std::int64_t> issue_begins_ns(std::span<const TaskCost> costs) const;
  template <bool kHosts, bool kTwoRuns>
  std::int64_t pass(std::span<const TaskCost> costs, std::span<const std::int64_t> issue_ns, std::span<Span> spans,
                    LengthOfRun* second) const;

  std::vector<Span> spans_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> befores_;  // places in steps_: what a step waits for, step after step
  std::vector<Issue> issues_;           // fewer than tasks: hosts wait for each other
  std::vector<TaskId> issues_before_;
  std::uint32_t workers_ = 0;
};

}  // namespace pdl
