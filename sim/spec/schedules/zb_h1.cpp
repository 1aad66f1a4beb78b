// ZB-H1 (arXiv:2401.10241, figure 2): the warm-up of 1F1B, backwards split into input gradient (I) and weight gradient
// (W). Stage s has s more I than W outstanding in the steady state; what is left over fills the end.
//
//   stage 1 of 3, 4 micro-batches:  F0 | F1 I0  F2 I1 W0  F3 I2 W1 | I3 W2 | W3
#include "sim/spec/schedules/zero_bubble_handcrafted.hpp"

namespace pdl {

std::vector<Operation> zb_h1_order(const ScheduleShape& shape, std::int32_t worker) {
  return zero_bubble_order(worker, shape.microbatches, shape.workers - 1 - worker, worker);
}

}  // namespace pdl
