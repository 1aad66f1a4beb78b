// Orders made by a simple rule while time passes: whenever a worker is free, it takes the most useful operation that it
// can start. The rule has a few knobs; a search turns them.
//
//   for (const GreedyRule& rule : greedy_rules(shape)) {
//     PipelineOrder order = greedy_order(placement, shape, costs, rule);
//   }
//
// The idea is that of the heuristic of Zero Bubble Pipeline Parallelism (arXiv:2401.10241, section 3.1): backwards
// first, forwards while memory allows, weight gradients into the gaps.
#pragma once

#include <vector>

#include "sim/predict/order_time.hpp"

namespace pdl {

struct GreedyRule {
  /// Most (stage, micro-batch) pairs of a worker between forward and weight gradient. At least its number of chunks.
  std::int32_t most_live = 1;
  /// A weight gradient is started when nothing else will be ready for this share of its length.
  double least_gap = 0;
  /// A forward goes before a backward that is ready too.
  bool forward_first = false;
  /// Of two forwards that are ready, the one of the later chunk goes first (its backward comes sooner).
  bool later_chunk_first = true;
};

/// The combinations worth trying for a shape: from the least memory to all micro-batches alive.
std::vector<GreedyRule> greedy_rules(const ScheduleShape& shape);

/// Complete and free of deadlocks; no value where the rule leads to one (too few alive for this shape). Backwards are
/// split; see whole_backwards().
std::optional<PipelineOrder> greedy_order(Placement placement, const ScheduleShape& shape, const OrderCosts& costs,
                                          const GreedyRule& rule);

/// Each weight gradient that follows its input gradient at once, as one whole backward.
PipelineOrder whole_backwards(const PipelineOrder& order);

}  // namespace pdl
