#include "sim/predict/greedy_order.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace pdl {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class Greedy {
 public:
  Greedy(Placement placement, const ScheduleShape& shape, const OrderCosts& costs, const GreedyRule& rule)
      : order_{placement, shape, std::vector<std::vector<Operation>>(static_cast<std::size_t>(shape.workers))},
        costs_(costs),
        rule_(rule),
        workers_(static_cast<std::size_t>(shape.workers)),
        forwards_(static_cast<std::size_t>(shape.stages()), 0),
        backwards_(forwards_),
        forward_done_ns_(static_cast<std::size_t>(shape.stages()) * static_cast<std::size_t>(shape.microbatches),
                         kNever),
        backward_done_ns_(forward_done_ns_) {}

  std::optional<PipelineOrder> make() {
    const std::size_t operations = 3 * forward_done_ns_.size();
    for (std::size_t done = 0; done < operations; ++done) {
      const auto w = next_worker();
      if (!w) return std::nullopt;
      take(*w);
    }
    return std::move(order_);
  }

 private:
  struct Worker {
    std::int64_t free_ns = 0;
    std::int32_t live = 0;
    std::vector<Operation> weights;  // whose input gradient is done, oldest first
    std::size_t weights_done = 0;
    bool has_weights() const { return weights_done < weights.size(); }
  };

  struct Choice {
    Operation operation;
    std::int64_t ready_ns = kNever;
  };

  std::size_t cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(order_.shape.microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  std::int32_t worker_of(std::int32_t stage) const {
    return worker_of_stage(order_.placement, order_.shape.workers, stage);
  }

  std::int64_t arrives_ns(const std::vector<std::int64_t>& done_ns, std::int32_t from, std::int32_t to,
                          std::int32_t m) const {
    const std::int64_t at_ns = done_ns[cell(from, m)];
    return at_ns == kNever || worker_of(from) == worker_of(to) ? at_ns : at_ns + costs_.transfer_ns;
  }

  /// The worker that can start something first; of equals the last one, whose results others wait for.
  std::optional<std::size_t> next_worker() const {
    std::optional<std::size_t> best;
    std::int64_t best_ns = kNever;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const std::int64_t at_ns = earliest_ns(w);
      if (at_ns <= best_ns && at_ns != kNever) {
        best_ns = at_ns;
        best = w;
      }
    }
    return best;
  }

  std::int64_t earliest_ns(std::size_t w) const {
    const Worker& worker = workers_[w];
    if (worker.has_weights()) return worker.free_ns;
    const std::int64_t ready_ns = std::min(best_forward(w).ready_ns, best_backward(w).ready_ns);
    return ready_ns == kNever ? kNever : std::max(worker.free_ns, ready_ns);
  }

  Choice best_forward(std::size_t w) const {
    Choice best;
    const Worker& worker = workers_[w];
    for (std::int32_t chunk = 0; chunk < order_.shape.chunks; ++chunk) {
      const std::int32_t stage =
          stage_of_chunk(order_.placement, order_.shape.workers, static_cast<std::int32_t>(w), chunk);
      const std::int32_t m = forwards_[static_cast<std::size_t>(stage)];
      // Room is kept for the later chunks: without them no backward ever comes.
      const std::int32_t later_chunks = order_.shape.chunks - 1 - chunk;
      if (m == order_.shape.microbatches || worker.live + later_chunks >= rule_.most_live) continue;
      const std::int64_t ready_ns = stage == 0 ? 0 : arrives_ns(forward_done_ns_, stage - 1, stage, m);
      const bool sooner = best.ready_ns > std::max(ready_ns, worker.free_ns);
      const bool as_soon = ready_ns <= worker.free_ns && best.ready_ns <= worker.free_ns;
      if (ready_ns != kNever && (sooner || (as_soon && rule_.later_chunk_first))) {
        best = {{OperationKind::forward, stage, m}, ready_ns};
      }
    }
    return best;
  }

  Choice best_backward(std::size_t w) const {
    Choice best;
    for (std::int32_t chunk = order_.shape.chunks; chunk-- > 0;) {
      const std::int32_t stage =
          stage_of_chunk(order_.placement, order_.shape.workers, static_cast<std::int32_t>(w), chunk);
      const std::int32_t m = backwards_[static_cast<std::size_t>(stage)];
      if (m == order_.shape.microbatches) continue;
      const bool last = stage + 1 == order_.shape.stages();
      const std::int64_t ready_ns =
          last ? forward_done_ns_[cell(stage, m)] : arrives_ns(backward_done_ns_, stage + 1, stage, m);
      if (ready_ns < best.ready_ns) best = {{OperationKind::backward_input, stage, m}, ready_ns};
    }
    return best;
  }

  /// Starts what the rule says, now or when it is ready.
  void take(std::size_t w) {
    Worker& worker = workers_[w];
    const Choice forward = best_forward(w), backward = best_backward(w);
    const bool forward_now = forward.ready_ns <= worker.free_ns, backward_now = backward.ready_ns <= worker.free_ns;
    if (backward_now && !(rule_.forward_first && forward_now)) return start(w, backward);
    if (forward_now) return start(w, forward);
    const Choice& soonest = forward.ready_ns < backward.ready_ns ? forward : backward;
    if (!worker.has_weights()) return start(w, soonest);
    const Operation weight = worker.weights[worker.weights_done];
    const auto gap_ns = static_cast<double>(soonest.ready_ns - worker.free_ns);
    if (soonest.ready_ns != kNever && gap_ns < rule_.least_gap * static_cast<double>(costs_.of(weight)))
      return start(w, soonest);
    ++worker.weights_done;
    start(w, {weight, 0});
  }

  void start(std::size_t w, const Choice& choice) {
    Worker& worker = workers_[w];
    const Operation& operation = choice.operation;
    worker.free_ns = std::max(worker.free_ns, choice.ready_ns) + costs_.of(operation);
    order_.workers[w].push_back(operation);
    const std::size_t at = cell(operation.stage, operation.microbatch);
    const auto stage = static_cast<std::size_t>(operation.stage);
    if (operation.kind == OperationKind::forward) {
      ++worker.live;
      ++forwards_[stage];
      forward_done_ns_[at] = worker.free_ns;
    } else if (operation.kind == OperationKind::backward_input) {
      ++backwards_[stage];
      backward_done_ns_[at] = worker.free_ns;
      worker.weights.push_back({OperationKind::backward_weight, operation.stage, operation.microbatch});
    } else {
      --worker.live;
    }
  }

  PipelineOrder order_;
  const OrderCosts& costs_;
  GreedyRule rule_;
  std::vector<Worker> workers_;
  std::vector<std::int32_t> forwards_, backwards_;  // by stage: micro-batches done
  std::vector<std::int64_t> forward_done_ns_, backward_done_ns_;
};

}  // namespace

std::vector<GreedyRule> greedy_rules(const ScheduleShape& shape) {
  const std::int32_t p = shape.workers, v = shape.chunks, all = shape.microbatches * v;
  std::set<std::int32_t> limits;
  for (const std::int32_t limit : {v, p, p + 1, p * v / 2 + v, p * v, p * v + 1, p * v + v, 3 * p * v / 2,
                                   2 * p * v - 1, 2 * p * v, 3 * p * v, all}) {
    limits.insert(std::clamp(limit, v, all));
  }
  std::vector<GreedyRule> rules;
  for (const std::int32_t limit : limits) {
    for (const double gap : {0.0, 0.3, 0.7, 1.0}) {
      for (const bool forward_first : {false, true}) {
        rules.push_back({limit, gap, forward_first, true});
        if (v > 1) rules.push_back({limit, gap, forward_first, false});
      }
    }
  }
  return rules;
}

std::optional<PipelineOrder> greedy_order(Placement placement, const ScheduleShape& shape, const OrderCosts& costs,
                                          const GreedyRule& rule) {
  return Greedy(placement, shape, costs, rule).make();
}

PipelineOrder whole_backwards(const PipelineOrder& order) {
  PipelineOrder whole{order.placement, order.shape, {}};
  for (const std::vector<Operation>& operations : order.workers) {
    std::vector<Operation>& out = whole.workers.emplace_back();
    for (const Operation& operation : operations) {
      const bool joins = operation.kind == OperationKind::backward_weight && !out.empty() &&
                         out.back().kind == OperationKind::backward_input && out.back().stage == operation.stage &&
                         out.back().microbatch == operation.microbatch;
      joins ? void(out.back().kind = OperationKind::backward) : out.push_back(operation);
    }
  }
  return whole;
}

}  // namespace pdl
