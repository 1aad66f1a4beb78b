// A run, predicted usually, beside traces of torch.profiler of the same settings: where both steps go, task by task.
//
//   task          predicted (ms)  traced (ms)  predicted - traced (ms)  activities
//   ------------------------------------------------------------------------------
//   all-reduce 3           0.368        0.534                   -0.166           1
//   F0                     0.548        0.678                   -0.130          18
//   ...
//   other                      -        0.002                        -           3
//
// A traced task lasts from the start of its first kernel to the end of its last one, as a measured run's does. Ranks
// that are not given are left out. Not here: two runs (compare_document.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/report/document.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/trace_explain.hpp"
#include "sim/run/traced_tasks.hpp"

namespace pdl {

/// Run and traces, with what has been made of them.
struct TracedComparison {
  std::string run_name;
  const RunResult& run;
  Explanation of_run;
  const std::vector<TracedStep>& steps;
  TraceExplanation of_traces;
  std::vector<TracedTasks> tasks;  // by trace
};

/// Throws InputError: as traced_tasks(), trace_ranks(); spans of the run that are not those of its plan.
TracedComparison compare_with_traces(const RunResult& run, const std::string& run_name, const Plan& plan,
                                     const std::vector<TracedStep>& steps);

Document traced_compare_document(const TracedComparison& comparison);

/// {"run", "traces", "step_ms": {"run", "traced"}, "parts": [...], "tasks": [...]}: docs/formats-run.md.
nlohmann::ordered_json traced_compare_json(const TracedComparison& comparison);

}  // namespace pdl
