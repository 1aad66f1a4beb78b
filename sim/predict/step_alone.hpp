// The step of a spec and its memory, and nothing else: for searches that compare many.
//
//   LayerFamilies families(profile);
//   const RunResult run = predict_step_alone(spec, &families, 20LL << 30);
//   run.step_time.median_ms, run.peak_memory_bytes         // those of predict(), to the byte
//   run.host_share                                         // of the usual host, at fixed rates
//
// The memory is looked at before anything is priced, so that a step that is refused for it costs little. Not here, and
// empty in the result: error bar, bound of the order, warnings of prices (predict.hpp), which take as long again.
#pragma once

#include <cstdint>

#include "sim/cost/layer_families.hpp"
#include "sim/predict/planned_spec.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// `families`: nullptr where costs are synthetic. Throws as predict(), OutOfMemory before a price that is not there.
/// RunResult::host_share: what a host that takes no time would save; of steps whose collectives run beside compute it
/// is that of the first replica (step_bound.hpp) and empty here.
RunResult predict_step_alone(const RunSpec& asked, LayerFamilies* families,
                             std::optional<std::int64_t> memory_limit_bytes);

}  // namespace pdl
