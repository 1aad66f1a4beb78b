// Where the device time of a predicted step goes by what is computed: kinds of layers, parts of a model.
//
//   const TimesByKind times = times_by_kind(plan, priced, result.step_time.median_ms);
//   times.kinds     linear 31.2 ms, scaled_dot_product 9.8, ..., loss 1.1, optimizer 2, rest 4.4
//   times.parts     embedding 0.4 ms, attention 20.1, mlp 22.7, head 5.5, loss 1.1, optimizer 2, rest 4.4
//
// Times are those of the prices (PricedWork::kinds_ns), of every task of the step, over the number of GPUs. Compute
// tasks of a GPU run one after another, so that these add up to the step with the rest: idle time, communication that
// no computation hides, waits for the host between kernels, and what kernels take longer beside a collective. Not here:
// what of the communication is hidden (sim/run/explain.hpp).
#pragma once

#include <vector>

#include "sim/cost/price.hpp"
#include "sim/plan/plan.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// As RunResult has them.
struct TimesByKind {
  std::vector<NamedTime> kinds;
  std::vector<NamedTime> parts;
};

/// Of a step that takes so many milliseconds. Both empty where the prices do not say it.
TimesByKind times_by_kind(const Plan& plan, const PricedWork& priced, double step_ms);

}  // namespace pdl
