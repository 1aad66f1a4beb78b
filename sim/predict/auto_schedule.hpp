// The order with the least step time that a search finds, for real costs of forward, input gradient, weight gradient
// and transfer, stages that differ, and a memory limit (`--schedule auto`).
//
//   FoundOrder found = search_order(named, spaces, steps_overlap, judge);
//
// 1. Every named schedule that fits is judged; 2. greedy orders (greedy_order.hpp) are made for each placement, the
// best few by a fast model (order_time.hpp) are judged; 3. the best are improved by small moves: an operation changes
// places with its neighbour, a backward is split or made whole; moves that do not make the model's time longer stay.
// The judge (the engine, with everything it knows) has the last word, so the result is never worse than the best named
// schedule. Deterministic: the same input gives the same order.
//
// Source of the idea: automatic scheduling of Zero Bubble Pipeline Parallelism (arXiv:2401.10241, section 3).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict/order_time.hpp"

namespace pdl {

/// An order to judge. Where steps overlap (zb-h2), a step is the time of the longest worker.
struct CandidateOrder {
  std::string name;  // "zb-h1", "greedy, at most 8 live", ...
  PipelineOrder order;
  bool steps_overlap = false;
};

/// A placement with a number of chunks, and what its stages cost.
struct SearchSpace {
  Placement placement = Placement::loop;
  ScheduleShape shape;
  OrderCosts costs;
};

/// Step time in nanoseconds by all that is known; no value if the order cannot run: deadlock, more memory than allowed.
using Judge = std::function<std::optional<std::int64_t>(const CandidateOrder&)>;

struct FoundOrder {
  CandidateOrder best;
  std::int64_t step_ns = 0;
  CandidateOrder best_named;  // of the named schedules
  std::optional<std::int64_t> best_named_ns;
  std::int64_t tried = 0;  // orders, by the model or the judge
};

/// `steps_overlap`: of the orders that are made here. No value if no order is within the limit of the judge.
std::optional<FoundOrder> search_order(const std::vector<CandidateOrder>& named, const std::vector<SearchSpace>& spaces,
                                       bool steps_overlap, const Judge& judge);

}  // namespace pdl
