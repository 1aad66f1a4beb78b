// Where a pipeline's weight gradients may run beside the gradients that the stage before waits for.
//
//   tries_second_stream(plan, 3)     // stage 3: its runtime times both ways, its memory has a workspace for them
//
// Not here: which way is the faster one (runtime/model/pipeline_stage.cpp, tune_backward).
#pragma once

#include <cstdint>

#include "sim/plan/plan.hpp"

namespace pdl {

/// In a whole backward on a GPU, on a second stream, with a workspace of its own: not under autocast, where weight
/// gradients are made in tensors of their own; nor of layers made of others, whose gradients inside the next layer
/// overwrites; nor of the model's first layer alone, beside which there is nothing to run.
bool tries_second_stream(const Plan& plan, std::int32_t stage);

}  // namespace pdl
