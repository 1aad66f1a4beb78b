// What a host takes longer for the first forward, backward or optimizer after it did something else: it waited for its
// GPU at the end of the step before, it slept (--delay-ms, --straggler), or it had other work. Its code has left the
// caches, autograd's thread has gone to sleep.
//
//   HostPauses pauses(profile, Dtype::amp_fp16, notices);
//   pauses.delay_ns(TaskKind::forward, since_ns, paused_ns, /*slept=*/false)
//
// Measured (probe `pause`, calibrate/probe/pause_probe.hpp): what the host takes to issue one, by how long ago the last
// of its kind had been issued,
//
//   again           the same call again and again: what all other probes of issue times are
//   after_wait(p)   the host waited for the GPU just before
//   after_sleep(p)  it slept just before
//   later(p)        something else of the step came just before
//
//   the delay of a task = after(p) - again if at least half of p was a pause just before it, else later(p) - again
//
// Beyond the measured p: the nearest. Why: steps of 1024 x 2 on one H200 whose host sleeps 0, 1, 10 and 100 ms before
// the backward take .709, 1.936, 11.371 and 102.092 ms (data/h200x4/runs_on_host_1): more than the sleep by .23, .66
// and 1.38, of which sleeping too long is .1. What hosts do when in a step: sim/engine/host_delays.hpp. Units:
// nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/notices.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

class HostPauses {
 public:
  /// No delays.
  HostPauses() = default;

  /// Of autograd's programs, at that data type; where it was not measured, of the nearest, which is said: both half
  /// precisions are alike; tf32 is fp32 to a host. No delays if the profile has none.
  HostPauses(const CostProfile& profile, Dtype dtype, Notices& notices);

  bool empty() const { return curves_.empty(); }

  /// How much later than its host is free a task begins to be issued; 0 for kinds that have no probe. `since_ns`: since
  /// the host issued the same kind; `paused_ns`: just before, 0: not at all.
  std::int64_t delay_ns(TaskKind kind, std::int64_t since_ns, std::int64_t paused_ns, bool slept) const;

  /// Before a forward whose gradients are exchanged: what c10d's Reducer does there.
  std::int64_t prepare_ns() const { return prepare_ns_; }
  void prepares_exchange(double ns);

  /// The optimizer of amp-fp16 waits for the GPU before it is issued (GradScaler).
  bool waits_in_optimizer() const { return waits_in_optimizer_; }

 private:
  const Curve* find(const std::string& name, const std::string& operation) const;

  std::vector<MeasuredCurve> curves_;
  std::int64_t prepare_ns_ = 0;
  bool waits_in_optimizer_ = false;
};

}  // namespace pdl
