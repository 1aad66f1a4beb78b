// What a predicted step would take if one of its costs were none: how much there is to gain from each.
//
//   std::vector<StepWithout> without = what_if(run, &profile);
//   without[0]     {"transfers", "Without transfers", 48.1}      the same plan again, every transfer in no time
//
//   transfers      between stages, and DataParallel's slices: no time on any stream, no time to issue
//   collectives    the same of all-reduce, broadcast, reduce
//   host           no issue time, no launch latency, no overhead of the step; sleeps stay (host_bound.hpp)
//   sleep          no host sleeps (--delay-ms, --straggler)
//   optimizer      and the loss where it is a task, and copies of gradients into and out of buckets
//   recomputation  no forward is run again, as if there were the memory to keep what it recomputes
//   imbalance      pipelines: forward and backward of every stage take the mean over the stages
//   contention     collectives and kernels do not slow each other
//   ideal          no cost but those of forward and backward, recomputation included: what the schedule itself takes
//                  (RunResult::bound_ms)
//
// The order of the tasks stays what it is. Tasks in no time are not issued either: the host's time for them goes too. A
// cost that is not there, such as imbalance of equal stages, is left out. Gains do not add up: behind one cost there
// may be another that then counts.
#pragma once

#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// `run`: as predict() made it from this profile (nullptr where its costs are synthetic). Throws as predict().
std::vector<StepWithout> what_if(const RunResult& run, const CostProfile* profile);

/// For explain(): by span, of the same run. Zeros for communication.
std::vector<TimeOfTask> times_of_tasks(const RunResult& run, const CostProfile* profile);

/// Both together: parts, critical path, and the steps without each. Always there for what predict() made.
Explanation explain_prediction(const RunResult& run, const CostProfile* profile);

}  // namespace pdl
