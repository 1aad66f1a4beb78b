// Where the step of a run goes, for people: the parts, each GPU, the critical path, the step without each cost.
//
//   Where the step goes
//
//   part              mean (ms)  share of the step (%)  on the critical path (ms)
//   -----------------------------------------------------------------------------
//   useful compute        4.000                   66.7                      6.000
//   fill and drain        2.000                   33.3                      0.000
//   step                  6.000                  100.0                      6.000
//
//   Without transfers the step would take 48.100 ms instead of 51.900 ms, 7.3 % less: ...
//
// Parts in which no GPU spends any time are left out. Not here: how time is attributed (sim/run/explain.hpp).
#pragma once

#include "sim/report/document.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// Tables "parts", "parts_of_gpus", "without" (where it was predicted), "critical_path" (of at most 12 segments, the
/// longest), and a chart.
Document explain_document(const RunResult& run, const Explanation& explanation);

/// The parts of two runs side by side: table "parts", and a chart.
Document compare_explanations(const RunResult& a, const Explanation& of_a, const RunResult& b, const Explanation& of_b);

}  // namespace pdl
