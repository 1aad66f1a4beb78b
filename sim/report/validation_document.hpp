// A validation for people: a row a measured run beside its prediction, worst error first.
//
//   run                   measured (ms)  p25 (ms)  p75 (ms)  predicted (ms)  error (%)  memory error (%)
//   ----------------------------------------------------------------------------------------------------
//   pp-1f1b_gpus4_...            50.034    50.012    50.071          50.871      +1.67              0.00
//
// Host-bound runs are in a table of their own, beside the spread of their steps. Then the mean, median and maximum of
// the absolute errors of each group, the warnings, and a chart of errors against times. Runs of pdl-run's programs and
// of PyTorch's are apart. As JSON: validation_json() (sim/study/validate.hpp).
#pragma once

#include "sim/report/document.hpp"
#include "sim/study/validate.hpp"

namespace pdl {

/// Of each program tables "errors", "runs" and "host_bound_runs", where there are such runs, and of PyTorch's pipelines
/// "plan_rankings". Those of a second program have its word behind their names: "errors_pytorch". `programs`:
/// by_program().
Document validation_document(std::span<const Validation> programs);
inline Document validation_document(const Validation& of_one_program) {
  return validation_document(std::span(&of_one_program, 1));
}

}  // namespace pdl
