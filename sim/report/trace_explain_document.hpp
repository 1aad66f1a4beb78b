// Where a traced step goes, for people: its parts on each rank, what it would take without each, its critical path, and
// which of that is known and which a guess.
//
//   part        rank 0 (ms)  critical path (ms)
//   -------------------------------------------
//   forward           0.521               0.521
//   ...
//   step              6.072               6.072
//
// Not here: predictions (explain_document.hpp).
#pragma once

#include <nlohmann/json.hpp>

#include "sim/report/document.hpp"
#include "sim/run/trace_explain.hpp"

namespace pdl {

Document trace_explain_document(const std::vector<TracedStep>& steps, const TraceExplanation& explanation);

/// {"step_ms", "ranks": [{"rank", "forward_ms", ...}], "critical_path": {"parts", "segments"},
///  "without": [{"what", "step_time_ms"}]}: docs/formats-run.md.
nlohmann::ordered_json trace_explain_json(const std::vector<TracedStep>& steps, const TraceExplanation& explanation);

}  // namespace pdl
