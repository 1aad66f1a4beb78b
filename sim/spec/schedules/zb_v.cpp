// ZB-V (arXiv:2405.15362, section 3; arXiv:2401.10241, section 6): stage s is on worker s on the way down and on worker
// 2P-1-s on the way up, so the worker that starts a micro-batch also ends its forward and starts its backward. No
// worker idles between its first and last operation if F, I and W take the same time.
//
//   worker 1 of 2 (stages 1 and 2), 4 micro-batches:
//     1F0 | 2F0 1F1 | 2F1 2I0 2W0 | 1F2 1I0 1W0 2F2 2I1 2W1  1F3 1I1 1W1 2F3 2I2 2W2 | 1I2 2I3  1I3 1W2 | 2W3 1W3
//
// It is made for 2P-1 micro-batches or more; with fewer, those that do not exist are left out.
#include <algorithm>
#include <utility>

#include "sim/spec/schedules/two_chunks.hpp"

namespace pdl {

std::vector<Operation> zb_v_order(const ScheduleShape& shape, std::int32_t worker) {
  using enum OperationKind;
  const std::int32_t after = shape.workers - worker;  // workers from this one to the last
  const std::int32_t microbatches = std::max(shape.microbatches, 2 * shape.workers - 1);
  TwoChunks order(shape, worker);

  order.repeat(2 * after - 1, {{forward, kDown}});
  order.repeat(worker, {{forward, kUp}, {forward, kDown}});
  order.repeat(after, {{forward, kUp}, {backward_input, kUp}, {backward_weight, kUp}});
  // All forwards down are ahead of those up by the same number until they run out.
  order.repeat(microbatches - order.count(forward, kUp), {{forward, kDown},
                                                          {backward_input, kDown},
                                                          {backward_weight, kDown},
                                                          {forward, kUp},
                                                          {backward_input, kUp},
                                                          {backward_weight, kUp}});
  // The input gradients that other workers wait for come first, weight gradients fill the end.
  order.repeat(worker, {{backward_input, kDown}, {backward_input, kUp}});
  order.repeat(after, {{backward_input, kDown}, {backward_weight, kDown}});
  order.repeat(microbatches - order.count(backward_weight, kUp), {{backward_weight, kUp}});
  order.repeat(microbatches - order.count(backward_weight, kDown), {{backward_weight, kDown}});
  return std::move(order.operations);
}

}  // namespace pdl
