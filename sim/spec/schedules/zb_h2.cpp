// ZB-H2 (arXiv:2401.10241, figure 3): twice the warm-up of 1F1B, weight gradients 2s late on stage s: warm-up and delay
// are 2(P-1) together on every stage, so that each works without a gap. It needs the memory of 2P-1 micro-batches, and
// no barrier between steps.
//
//   stage 0 of 2, 4 micro-batches:  F0 F1 | F2 I0 W0  F3 I1 W1 | I2 W2  I3 W3
#include "sim/spec/schedules/zero_bubble_handcrafted.hpp"

namespace pdl {

std::vector<Operation> zb_h2_order(const ScheduleShape& shape, std::int32_t worker) {
  return zero_bubble_order(worker, shape.microbatches, 2 * (shape.workers - 1 - worker), 2 * worker);
}

}  // namespace pdl
