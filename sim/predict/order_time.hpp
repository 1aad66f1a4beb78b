// How long an order takes by a model that is fast to compute: fixed times for each stage, a delay between workers,
// nothing else. For searches that try many orders; the engine decides in the end.
//
//   worker 0   0F0 0F1 ..  .. 0B0 0B0 0B1 0B1
//   worker 1   ..  1F0 1B0 1B0 1F1 1B1 1B1        order_time(order, costs)->makespan_ns
//
// Units: nanoseconds. Not here: hosts, streams, transfers that share a link (sim/engine).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

/// Of one micro-batch on one stage.
struct StageCosts {
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;  // whole: with both gradients in one task it may be shorter than the two below
  std::int64_t input_ns = 0;
  std::int64_t weight_ns = 0;
};

struct OrderCosts {
  std::vector<StageCosts> stages;
  std::int64_t transfer_ns = 0;  // between stages on different workers

  std::int64_t of(const Operation& operation) const;
};

struct OrderTime {
  std::int64_t makespan_ns = 0;
  std::int64_t longest_worker_ns = 0;  // from a worker's first operation to its last
};

/// No value: the order is a deadlock.
std::optional<OrderTime> order_time(const PipelineOrder& order, const OrderCosts& costs);

}  // namespace pdl
