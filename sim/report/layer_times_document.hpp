// Tables of where the device time of a predicted step goes by what is computed: kinds of layers, parts of the model.
//
//   kind of layer         mean over GPUs (ms)  share of the step (%)
//   ----------------------------------------------------------------
//   linear                             31.200                   62.4
//   ...
//   rest                                4.400                    8.8
//
// Not here: by what the GPUs wait for (explain_document.hpp).
#pragma once

#include "sim/report/document.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// A table of kinds; of models with blocks one of parts, too; what communication takes beside them. Empty where the run
/// does not have them.
Document layer_times_document(const RunResult& run);

}  // namespace pdl
