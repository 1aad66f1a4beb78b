#include "sim/predict/greedy_order.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

OrderCosts uneven_costs(const ScheduleShape& shape) {
  OrderCosts costs{{}, 2};
  for (std::int32_t s = 0; s < shape.stages(); ++s) costs.stages.push_back({3 + s % 2, 7, 4, 3 + s % 3});
  return costs;
}

/// Every operation once, F before I before W.
bool is_complete(const PipelineOrder& order) {
  std::map<std::tuple<int, int, OperationKind>, std::size_t> place;
  std::size_t count = 0;
  for (const auto& operations : order.workers) {
    for (const Operation& operation : operations) {
      place[{operation.stage, operation.microbatch, operation.kind}] = ++count;
    }
  }
  if (count != place.size() || count != 3u * static_cast<std::size_t>(order.shape.stages() * order.shape.microbatches))
    return false;
  return std::all_of(place.begin(), place.end(), [&](const auto& entry) {
    const auto [stage, microbatch, kind] = entry.first;
    const std::size_t forward = place.at({stage, microbatch, OperationKind::forward});
    const std::size_t input = place.at({stage, microbatch, OperationKind::backward_input});
    return kind != OperationKind::backward_weight || (forward < input && input < entry.second);
  });
}

std::int32_t most_live(const std::vector<Operation>& operations) {
  std::int32_t live = 0, most = 0;
  for (const Operation& operation : operations) {
    if (operation.kind == OperationKind::forward) most = std::max(most, ++live);
    if (operation.kind == OperationKind::backward_weight) --live;
  }
  return most;
}

}  // namespace

TEST_CASE("Greedy orders are complete, run, and keep to their limit, whatever the rule") {
  std::size_t made = 0;
  for (const Placement placement : {Placement::loop, Placement::v}) {
    for (const ScheduleShape& shape : {ScheduleShape{1, 1, 3}, {2, 1, 5}, {3, 2, 4}, {4, 1, 8}, {4, 2, 3}, {5, 3, 7}}) {
      const OrderCosts costs = uneven_costs(shape);
      for (const GreedyRule& rule : greedy_rules(shape)) {
        const auto order = greedy_order(placement, shape, costs, rule);
        if (!order) continue;
        ++made;
        CHECK(is_complete(*order));
        CHECK(order_time(*order, costs).has_value());
        CHECK(order_time(whole_backwards(*order), costs).has_value());
        for (const auto& operations : order->workers) CHECK(most_live(operations) <= rule.most_live);
      }
    }
  }
  CHECK(made > 500);
}

TEST_CASE("A weight gradient right after its input gradient becomes one whole backward") {
  const PipelineOrder order = whole_backwards({Placement::loop,
                                               {1, 1, 2},
                                               {{{OperationKind::forward, 0, 0},
                                                 {OperationKind::backward_input, 0, 0},
                                                 {OperationKind::backward_weight, 0, 0},
                                                 {OperationKind::forward, 0, 1},
                                                 {OperationKind::backward_input, 0, 1},
                                                 {OperationKind::backward_weight, 0, 1}}}});
  CHECK(order == make_order(*find_schedule("naive"), {1, 1, 2}));
}
