#include "sim/predict/order_time.hpp"

#include <algorithm>

namespace pdl {
namespace {

constexpr std::int64_t kNotYet = -1;

/// When the forward and the (input gradient of the) backward of each stage and micro-batch have finished.
struct Finished {
  explicit Finished(const ScheduleShape& shape)
      : microbatches(shape.microbatches),
        forward_ns(static_cast<std::size_t>(shape.stages()) * static_cast<std::size_t>(shape.microbatches), kNotYet),
        backward_ns(forward_ns) {}

  std::size_t cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  std::int32_t microbatches;
  std::vector<std::int64_t> forward_ns, backward_ns;
};

/// When what the operation needs from the stage beside it is there; kNotYet if it has not run.
std::int64_t needed_ns(const PipelineOrder& order, const OrderCosts& costs, const Finished& finished,
                       const Operation& operation) {
  if (operation.kind == OperationKind::backward_weight) return 0;
  const bool forward = operation.kind == OperationKind::forward;
  const std::int32_t source = operation.stage + (forward ? -1 : 1);
  if (source < 0 || source >= order.shape.stages()) return 0;
  const std::int64_t at_ns =
      (forward ? finished.forward_ns : finished.backward_ns)[finished.cell(source, operation.microbatch)];
  const auto worker = [&](std::int32_t stage) { return worker_of_stage(order.placement, order.shape.workers, stage); };
  if (at_ns == kNotYet || worker(source) == worker(operation.stage)) return at_ns;
  return at_ns + costs.transfer_ns;
}

}  // namespace

std::int64_t OrderCosts::of(const Operation& operation) const {
  const StageCosts& stage = stages[static_cast<std::size_t>(operation.stage)];
  switch (operation.kind) {
    case OperationKind::forward: return stage.forward_ns;
    case OperationKind::backward: return stage.backward_ns;
    case OperationKind::backward_input: return stage.input_ns;
    case OperationKind::backward_weight: return stage.weight_ns;
    default: return 0;
  }
}

std::optional<OrderTime> order_time(const PipelineOrder& order, const OrderCosts& costs) {
  Finished finished(order.shape);
  const std::size_t workers = order.workers.size();
  std::vector<std::size_t> next(workers, 0);
  std::vector<std::int64_t> free_ns(workers, 0), first_ns(workers, kNotYet);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t w = 0; w < workers; ++w) {
      for (; next[w] < order.workers[w].size(); ++next[w], progress = true) {
        const Operation& operation = order.workers[w][next[w]];
        const std::int64_t needed = needed_ns(order, costs, finished, operation);
        if (needed == kNotYet) break;
        const std::int64_t start_ns = std::max(free_ns[w], needed);
        if (first_ns[w] == kNotYet) first_ns[w] = start_ns;
        free_ns[w] = start_ns + costs.of(operation);
        const std::size_t cell = finished.cell(operation.stage, operation.microbatch);
        if (operation.kind == OperationKind::forward) finished.forward_ns[cell] = free_ns[w];
        if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_input) {
          finished.backward_ns[cell] = free_ns[w];
        }
      }
    }
  }
  OrderTime time;
  for (std::size_t w = 0; w < workers; ++w) {
    if (next[w] < order.workers[w].size()) return std::nullopt;
    time.makespan_ns = std::max(time.makespan_ns, free_ns[w]);
    if (first_ns[w] != kNotYet) time.longest_worker_ns = std::max(time.longest_worker_ns, free_ns[w] - first_ns[w]);
  }
  return time;
}

}  // namespace pdl
