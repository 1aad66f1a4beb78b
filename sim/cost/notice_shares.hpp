// How much of a step rests on each notice of its prices.
//
//   work of GPU 0: 90 ms forward and backward, 10 ms optimizer (beyond the sizes measured)   -> 0.10
//   work of GPU 1: 99 ms forward and backward,  1 ms optimizer                                  of the step: 0.10
//
// The share is that of the summed time of a GPU's tasks, of the GPU where it is largest. Time of different streams is
// summed although it passes at once, so a share says how much is affected, not how much longer the step may become.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/notices.hpp"
#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

/// One a notice, each in 0..1; nothing where it is said of no piece of work and of no call of a host. `costs`: by
/// work.
std::vector<std::optional<double>> notice_shares(const std::vector<Notice>& notices, const TaskGraph& graph,
                                                 const std::vector<TaskCost>& costs);

}  // namespace pdl
