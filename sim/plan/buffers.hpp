// Which buffer every micro-batch of a stage uses, and how many activations are live at once.
//
//   1f1b, stage 0 of 2, 3 micro-batches      F0 F1 B0 F2 B1 B2
//                                     slot    0  1     0              slots 2 (stage 1: one more than it needs,
//                                     live    1  2  1  2  1  0        as the next input arrives beside the oldest)
//
// A micro-batch holds its buffer from its forward to its last backward; where the stage above is on the same worker,
// which reads this one's result in place, to the last backward of that one too. Buffers are taken in turn.
//
// Units: bytes. Not here: what an allocator makes of them (sim/memory).
#pragma once

#include "sim/plan/plan.hpp"

namespace pdl {

/// Fills in Plan::slots, Plan::live, and Stage::slots and live_microbatches of a plan with stages and rows.
void assign_buffers(Plan& plan, const StepOrder& order);

/// Plan::live and Stage::live_microbatches alone, of a plan that has the rest.
void count_live_activations(Plan& plan, const StepOrder& order);

/// Of a GPU with the whole model and so many samples: it keeps the activations of one forward at a time.
LiveActivations live_of_whole_model(const RunSpec& spec, std::int64_t rows);

}  // namespace pdl
