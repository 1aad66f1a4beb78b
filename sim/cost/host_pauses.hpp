// What a host takes longer for the first forward, backward or optimizer after it did something else: it waited for its
// GPU at the end of the step before, it slept (--delay-ms, --straggler), or it had other work. Its code has left the
// caches, autograd's thread has gone to sleep.
//
//   HostPauses pauses(profile, "amp-fp16");
//   run(plan.graph, priced.costs, &priced.shared, pauses.delays_ns(plan.graph, priced.costs, step_ns));
//
// A step that is one of many: what came before its first task is the end of the same step. Measured (probe `pause`):
//
//   later(p)        the same kind of task was issued p ago, and another kind has been since
//   after_wait(w)   the host waited w for the GPU just before
//   after_sleep(w)  it slept
//
//   the delay of a task = later(p) + after(w) - later(w);   without the last two where it did not pause just before
//
// Pauses shorter than the shortest measured one count in proportion; longer ones than the longest count as that.
// Why: recorded steps of 1024 x 2 on one H200 whose host sleeps 0, 1, 10 and 100 ms before the backward (PyTorch 2.11) have
// a first part of the backward of 292, 420, 658 and 1111 us, and a forward, which comes after the end of the step, of 98,
// 142, 180 and 260 us. Units: nanoseconds. Not here: hosts that wait for each other inside a step (pipelines of worker
// threads, DataParallel); processes of which one pauses longer than another for other reasons than --straggler.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

class HostPauses {
 public:
  /// No delays.
  HostPauses() = default;

  /// Of autograd's programs, at that data type; where it was not measured, of the nearest: both half precisions are
  /// alike, and tf32 is fp32 to a host. No delays if the profile has none.
  HostPauses(const CostProfile& profile, const std::string& dtype);

  bool empty() const { return curves_.empty(); }

  /// How much later than its host is free each task begins to be issued, by task; a step takes `step_ns`.
  std::vector<std::int64_t> delays_ns(const TaskGraph& graph, std::span<const TaskCost> costs, std::int64_t step_ns) const;

  /// Of one task. `since_ns`: since the host issued the same kind; `paused_ns`: just before, 0: not at all.
  std::int64_t delay_ns(TaskKind kind, std::int64_t since_ns, std::int64_t paused_ns, bool slept) const;

 private:
  double at(const char* name, TaskKind kind, std::int64_t pause_ns) const;

  std::vector<MeasuredCurve> curves_;
};

}  // namespace pdl
