#include "sim/predict/auto_schedule.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "sim/predict/greedy_order.hpp"

namespace pdl {
namespace {

constexpr std::size_t kGreedyJudged = 12;              // of each space
constexpr std::size_t kImproved = 3;                   // of all spaces
constexpr std::int64_t kModelOperations = 40'000'000;  // operations that the model may time while improving

struct Modelled {
  std::int64_t time_ns = 0;
  CandidateOrder candidate;
};

std::int64_t objective_ns(const OrderTime& time, bool steps_overlap) {
  return steps_overlap ? time.longest_worker_ns : time.makespan_ns;
}

std::vector<Modelled> greedy_candidates(const SearchSpace& space, bool steps_overlap) {
  std::vector<Modelled> found;
  for (const GreedyRule& rule : greedy_rules(space.shape)) {
    const auto split = greedy_order(space.placement, space.shape, space.costs, rule);
    if (!split) continue;
    for (const PipelineOrder& order : {*split, whole_backwards(*split)}) {
      const auto time = order_time(order, space.costs);
      const std::string name = "greedy, at most " + std::to_string(rule.most_live) + " live";
      if (time) found.push_back({objective_ns(*time, steps_overlap), {name, order, steps_overlap}});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Modelled& a, const Modelled& b) { return a.time_ns < b.time_ns; });
  return found;
}

/// True if `first` must stay before `second` on their worker.
bool bound_together(const Operation& first, const Operation& second) {
  // F, I, W of one stage. Where stages of one worker change places, the model finds the deadlock.
  return first.stage == second.stage && first.microbatch == second.microbatch;
}

/// One random small change; false if it is none.
bool change(PipelineOrder& order, std::mt19937_64& random, std::size_t& worker, std::vector<Operation>& before) {
  worker = random() % order.workers.size();
  std::vector<Operation>& operations = order.workers[worker];
  if (operations.size() < 2) return false;
  before = operations;
  const std::size_t at = random() % operations.size();
  const std::uint64_t kind = random() % 8;
  Operation& operation = operations[at];
  if (kind == 0 && operation.kind == OperationKind::backward) {
    operation.kind = OperationKind::backward_input;
    operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                      {OperationKind::backward_weight, operation.stage, operation.microbatch});
    return true;
  }
  if (kind == 0 && operation.kind == OperationKind::backward_input && at + 1 < operations.size() &&
      operations[at + 1].kind == OperationKind::backward_weight && operations[at + 1].stage == operation.stage &&
      operations[at + 1].microbatch == operation.microbatch) {
    operation.kind = OperationKind::backward;
    operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    return true;
  }
  // The operation moves a few places, as far as it may.
  const std::size_t places = 1 + random() % (kind < 5 ? 1 : 6);
  const bool later = random() % 2 == 0;
  std::size_t here = at;
  for (std::size_t i = 0; i < places; ++i) {
    if (later ? here + 1 >= operations.size() : here == 0) break;
    const std::size_t other = later ? here + 1 : here - 1;
    if (bound_together(operations[std::min(here, other)], operations[std::max(here, other)])) break;
    std::swap(operations[here], operations[other]);
    here = other;
  }
  return here != at;
}

std::int32_t most_live(const std::vector<Operation>& operations) {
  std::int32_t live = 0, most = 0;
  for (const Operation& operation : operations) {
    if (operation.kind == OperationKind::forward) most = std::max(most, ++live);
    if (operation.kind == OperationKind::backward || operation.kind == OperationKind::backward_weight) --live;
  }
  return most;
}

/// Random moves that keep the model's time from growing, and no worker's memory above what it was.
CandidateOrder improve(const CandidateOrder& from, const OrderCosts& costs, std::int64_t& tried) {
  CandidateOrder best = from;
  best.name += ", improved";
  for (std::vector<Operation>& operations : best.order.workers) {
    for (Operation& operation : operations) operation.overlaps_next = false;  // neighbours change
  }
  std::mt19937_64 random(1);
  std::vector<std::int32_t> limits;
  std::int64_t operations = 0;
  for (const std::vector<Operation>& of_worker : from.order.workers) {
    limits.push_back(most_live(of_worker));
    operations += static_cast<std::int64_t>(of_worker.size());
  }
  const auto start = order_time(best.order, costs);
  if (!start || operations == 0) return from;
  std::int64_t best_ns = objective_ns(*start, from.steps_overlap);
  const std::int64_t rounds = kModelOperations / static_cast<std::int64_t>(kImproved) / operations;
  std::vector<Operation> before;
  std::size_t worker = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (!change(best.order, random, worker, before)) {
      if (!before.empty()) best.order.workers[worker] = before;
      continue;
    }
    ++tried;
    const bool fits = most_live(best.order.workers[worker]) <= limits[worker];
    const auto time = fits ? order_time(best.order, costs) : std::nullopt;
    if (time && objective_ns(*time, from.steps_overlap) <= best_ns) {
      best_ns = objective_ns(*time, from.steps_overlap);
    } else {
      best.order.workers[worker] = before;
    }
  }
  return best;
}

const SearchSpace* space_of(const std::vector<SearchSpace>& spaces, const PipelineOrder& order) {
  for (const SearchSpace& space : spaces) {
    if (space.placement == order.placement && space.shape == order.shape) return &space;
  }
  return nullptr;
}

}  // namespace

std::optional<FoundOrder> search_order(const std::vector<CandidateOrder>& named, const std::vector<SearchSpace>& spaces,
                                       bool steps_overlap, const Judge& judge) {
  FoundOrder found;
  std::vector<Modelled> judged;
  const auto consider = [&](const CandidateOrder& candidate) {
    ++found.tried;
    if (const auto step_ns = judge(candidate)) judged.push_back({*step_ns, candidate});
  };
  for (const CandidateOrder& candidate : named) consider(candidate);
  const auto by_time = [](const Modelled& a, const Modelled& b) { return a.time_ns < b.time_ns; };
  std::stable_sort(judged.begin(), judged.end(), by_time);
  if (!judged.empty()) {
    found.best_named = judged.front().candidate;
    found.best_named_ns = judged.front().time_ns;
  }
  for (const SearchSpace& space : spaces) {
    const std::vector<Modelled> greedy = greedy_candidates(space, steps_overlap);
    found.tried += static_cast<std::int64_t>(greedy.size());
    const std::size_t enough = judged.size() + kGreedyJudged;
    for (std::size_t i = 0; i < greedy.size() && judged.size() < enough; ++i) consider(greedy[i].candidate);
  }
  std::stable_sort(judged.begin(), judged.end(), by_time);
  const std::size_t improved = std::min(kImproved, judged.size());
  for (std::size_t i = 0; i < improved; ++i) {
    const CandidateOrder from = judged[i].candidate;
    if (const SearchSpace* space = space_of(spaces, from.order)) consider(improve(from, space->costs, found.tried));
  }
  if (judged.empty()) return std::nullopt;
  const auto best = std::min_element(judged.begin(), judged.end(), by_time);  // of equals the first: the named one
  found.best = best->candidate;
  found.step_ns = best->time_ns;
  return found;
}

}  // namespace pdl
