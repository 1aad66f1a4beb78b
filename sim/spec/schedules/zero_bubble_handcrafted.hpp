// What ZB-H1 and ZB-H2 have in common: warm-up forwards, then forward, input gradient and a weight gradient in turn,
// the weight gradients a fixed number of micro-batches behind.
//
//   zero_bubble_order(stage, 4, 1, 1)   F0 | F1 I0  F2 I1 W0  F3 I2 W1 | I3 W2 | W3
#pragma once

#include "sim/spec/schedule.hpp"

namespace pdl {

/// `warm_up` forwards come before the first pair; `delay`: input gradients that stay ahead of the weight gradients.
/// Both may be more than there are micro-batches.
std::vector<Operation> zero_bubble_order(std::int32_t stage, std::int32_t microbatches, std::int32_t warm_up,
                                         std::int32_t delay);

}  // namespace pdl
