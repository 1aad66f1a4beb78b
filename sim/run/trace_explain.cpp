// The parts of a traced step. Its critical path and the steps without: trace_graph.cpp.
#include "sim/run/trace_explain.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace pdl {
namespace {

struct NcclInterval {
  std::int64_t start_ns, end_ns;
};

/// When a kernel of NCCL ran, without overlaps, in order.
std::vector<NcclInterval> nccl_intervals(const KinetoTrace& trace) {
  std::vector<NcclInterval> merged;
  for (const GpuActivity& activity : trace.activities) {
    if (nccl_operation(activity).empty()) continue;
    if (!merged.empty() && activity.start_ns <= merged.back().end_ns) {
      merged.back().end_ns = std::max(merged.back().end_ns, activity.end_ns);
    } else {
      merged.push_back({activity.start_ns, activity.end_ns});
    }
  }
  return merged;
}

bool runs_beside(const GpuActivity& activity, const std::vector<NcclInterval>& intervals) {
  const auto after =
      std::upper_bound(intervals.begin(), intervals.end(), activity.start_ns,
                       [](std::int64_t ns, const NcclInterval& interval) { return ns < interval.end_ns; });
  return after != intervals.end() && after->start_ns < activity.end_ns;
}

bool is_computation(const GpuActivity& activity) {
  return activity.kind == GpuActivityKind::kernel && nccl_operation(activity).empty();
}

/// Name and grid of a kernel: how long those took that ran without NCCL beside them.
using AloneTimes = std::map<std::pair<std::string, std::string>, std::vector<std::int64_t>>;

AloneTimes alone_times(const KinetoTrace& trace, const std::vector<NcclInterval>& nccl) {
  AloneTimes times;
  for (const GpuActivity& activity : trace.activities) {
    if (is_computation(activity) && !runs_beside(activity, nccl))
      times[{activity.name, activity.grid}].push_back(activity.duration_ns());
  }
  for (auto& [kernel, of_kernel] : times) std::sort(of_kernel.begin(), of_kernel.end());
  return times;
}

bool is_forward_or_backward(TracePart part) {
  return part == TracePart::forward || part == TracePart::backward;
}

/// The parts of one rank. `last_start_ns`: by place of a collective that is known of other ranks, on the rank's clock.
class RankParts {
 public:
  RankParts(const TracedStep& traced, const std::map<std::size_t, std::int64_t>& last_start_ns)
      : traced_(traced), last_start_ns_(last_start_ns) {
    for (std::size_t place = 0; place < step().activities.size(); ++place) {
      if (!is_forward_or_backward(step().parts[place])) continue;
      first_ns_ = std::min(first_ns_, traced.activity(place).start_ns);
      last_ns_ = std::max(last_ns_, traced.activity(place).end_ns);
    }
  }

  TraceCosts costs(const std::vector<std::int64_t>& contention) {
    shown_ns_.assign(step().activities.size(), 0);
    for (const TraceStretch& stretch : stretches_of(traced_.trace, step())) {
      if (stretch.running) {
        add(*stretch.running, stretch);
      } else {
        costs_[TraceCost::host] += stretch.host_ns;
        costs_[TraceCost::waiting] += stretch.end_ns - stretch.start_ns - stretch.host_ns;
      }
    }
    for (std::size_t place = 0; place < shown_ns_.size(); ++place) {
      const std::int64_t beyond_ns = std::min(contention[place], shown_ns_[place]);
      if (beyond_ns <= 0) continue;
      costs_[computation(place)] -= beyond_ns;
      costs_[TraceCost::contention] += beyond_ns;
    }
    return costs_;
  }

 private:
  const TraceStep& step() const { return traced_.step(); }

  TraceCost computation(std::size_t place) const {
    if (step().roles[place] == ActivityRole::bucket_copy_in) return TraceCost::copies;
    const TracePart part = step().parts[place];
    return part == TracePart::forward    ? TraceCost::forward
           : part == TracePart::backward ? TraceCost::backward
                                         : TraceCost::optimizer;
  }

  void add(std::size_t place, const TraceStretch& stretch) {
    const std::int64_t ns = stretch.end_ns - stretch.start_ns;
    switch (step().parts[place]) {
      case TracePart::collectives: return add_collective(place, stretch);
      case TracePart::messages: costs_[message(stretch)] += ns; return;
      case TracePart::copies: costs_[TraceCost::copies] += ns; return;
      default: costs_[computation(place)] += ns; shown_ns_[place] += ns;
    }
  }

  void add_collective(std::size_t place, const TraceStretch& stretch) {
    const auto last = last_start_ns_.find(place);
    const std::int64_t waits_ns = last == last_start_ns_.end()
                                      ? 0
                                      : std::clamp(last->second, stretch.start_ns, stretch.end_ns) - stretch.start_ns;
    costs_[TraceCost::imbalance] += waits_ns;
    costs_[TraceCost::collectives] += stretch.end_ns - stretch.start_ns - waits_ns;
  }

  TraceCost message(const TraceStretch& stretch) const {
    if (last_ns_ < first_ns_) return TraceCost::transfers;  // no computation
    return stretch.end_ns <= first_ns_    ? TraceCost::fill
           : stretch.start_ns >= last_ns_ ? TraceCost::drain
                                          : TraceCost::transfers;
  }

  const TracedStep& traced_;
  const std::map<std::size_t, std::int64_t>& last_start_ns_;
  std::int64_t first_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns_ = std::numeric_limits<std::int64_t>::min();
  TraceCosts costs_;
  std::vector<std::int64_t> shown_ns_;  // by place: for how long it counted
};

}  // namespace

std::int64_t TraceCosts::sum_ns() const {
  return std::accumulate(ns.begin(), ns.end(), std::int64_t{0});
}

std::vector<std::int64_t> contention_of(const TracedStep& traced, KnownContention& known) {
  constexpr std::size_t kFewestAlone = 2;
  const std::vector<NcclInterval> nccl = nccl_intervals(traced.trace);
  const AloneTimes alone = alone_times(traced.trace, nccl);
  std::vector<std::int64_t> beyond_ns(traced.step().activities.size(), 0);
  for (std::size_t place = 0; place < beyond_ns.size(); ++place) {
    const GpuActivity& activity = traced.activity(place);
    if (!is_computation(activity) || !runs_beside(activity, nccl)) continue;
    ++known.all;
    const auto times = alone.find({activity.name, activity.grid});
    if (times == alone.end() || times->second.size() < kFewestAlone) continue;
    ++known.known;
    const std::int64_t median_ns = times->second[times->second.size() / 2];
    beyond_ns[place] = std::max<std::int64_t>(0, activity.duration_ns() - median_ns);
  }
  return beyond_ns;
}

TraceExplanation explain_trace(const std::vector<TracedStep>& steps) {
  const TraceRanks ranks = trace_ranks(steps);
  TraceExplanation explanation;
  explanation.peers_known = !ranks.collectives.empty();
  explanation.clocks_guessed = ranks.clocks_guessed;
  std::vector<std::vector<std::int64_t>> contention;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::map<std::size_t, std::int64_t> last_ns;
    for (const TracedCollective& collective : ranks.collectives) {
      if (collective.places[s])
        last_ns[*collective.places[s]] = last_start_ns(steps, ranks, collective) - ranks.shift_ns[s];
    }
    KnownContention known;
    contention.push_back(contention_of(steps[s], known));
    explanation.contention.push_back(known);
    explanation.ranks.push_back(RankParts(steps[s], last_ns).costs(contention.back()));
  }
  walk_graph(steps, ranks, contention, explanation);
  return explanation;
}

}  // namespace pdl
