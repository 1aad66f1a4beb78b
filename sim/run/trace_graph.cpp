// The dependency graph of the traced activities: walk_graph() of trace_explain.hpp, which says what depends on what.
//
//   launch ----> start ----> end ----> start of the next on the stream
//     |                       \------> start of what waits for its event, or of a call that waits for the GPU
//     v
//   launch of the next
//
// Every node happens when the last of those before it has happened, plus a lag of that edge, plus its own time, which
// is what the trace has beyond that: with all times as they are the walk gives the trace again. Edges go from earlier
// to later times of the trace alone, so that the order of time is an order of the graph.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sim/run/trace_explain.hpp"

namespace pdl {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t kGapInStream_ns = 10'000;  // at most: of launches that are ahead

enum class NodeKind : std::uint8_t { host, start, end };

struct Edge {
  std::size_t from = 0;
  std::int64_t lag_ns = 0;
  bool of_peer = false;    // the start of a collective on another rank
  bool of_stream = false;  // the activity before it on its stream
};

struct Node {
  NodeKind kind = NodeKind::host;
  std::size_t rank = 0, place = 0;
  std::int64_t time_ns = 0;
  std::int64_t own_ns = 0;  // after the last edge
  std::vector<Edge> edges;
  std::size_t last = kNobody;  // which edge was last
};

/// What waits where on one rank, on the clock of the first.
struct RankNodes {
  std::vector<std::size_t> start, end;  // by place
};

class TraceGraph {
 public:
  TraceGraph(const std::vector<TracedStep>& steps, const TraceRanks& ranks) : steps_(steps), ranks_(ranks) {
    add_nodes();
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      add_host_edges(s);
      add_stream_edges(s);
      add_launch_order_edges(s);
      add_edges_by_gaps(s);
      add_collective_edges(s);
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) finish(nodes_[n]);
  }

  /// In an order in which every edge comes from before.
  const std::vector<Node>& nodes() const { return nodes_; }
  TracePart part(const Node& node) const { return steps_[node.rank].step().parts[node.place]; }
  bool copies_into_bucket(const Node& node) const {
    return steps_[node.rank].step().roles[node.place] == ActivityRole::bucket_copy_in;
  }
  const GpuActivity& activity(const Node& node) const { return steps_[node.rank].activity(node.place); }

 private:
  struct HostEvent {
    std::int64_t time_ns;
    bool waits;         // for the GPU, else the launch of `place`
    std::size_t place;  // or of the wait
  };

  std::int64_t start_ns(std::size_t s, std::size_t place) const {
    return steps_[s].activity(place).start_ns + ranks_.shift_ns[s];
  }
  std::int64_t end_ns(std::size_t s, std::size_t place) const {
    return steps_[s].activity(place).end_ns + ranks_.shift_ns[s];
  }
  std::size_t count(std::size_t s) const { return steps_[s].step().activities.size(); }
  TracePart part(std::size_t s, std::size_t place) const { return steps_[s].step().parts[place]; }
  bool is_nccl(std::size_t s, std::size_t place) const {
    return part(s, place) == TracePart::collectives || part(s, place) == TracePart::messages;
  }
  /// Launched in this order; what has no known launch when it started.
  std::int64_t launched_ns(std::size_t s, std::size_t place) const {
    const GpuActivity& activity = steps_[s].activity(place);
    return (activity.is_launch_known() ? activity.launch_start_ns : activity.start_ns) + ranks_.shift_ns[s];
  }

  /// Launches and calls that wait for the GPU, of all threads: a launch is over when its call returns, or its activity
  /// starts.
  std::vector<HostEvent> host_events(std::size_t s) const {
    std::vector<HostEvent> events;
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max(),
                 last_ns = std::numeric_limits<std::int64_t>::min();
    for (std::size_t place = 0; place < count(s); ++place) {
      const GpuActivity& activity = steps_[s].activity(place);
      if (!activity.is_launch_known()) continue;
      const std::int64_t ns = std::min(activity.launch_end_ns, activity.start_ns) + ranks_.shift_ns[s];
      events.push_back({ns, false, place});
      first_ns = std::min(first_ns, ns);
      last_ns = std::max(last_ns, ns);
    }
    const std::vector<HostWait>& waits = steps_[s].trace.waits;
    for (std::size_t w = 0; w < waits.size(); ++w) {
      const std::int64_t ns = waits[w].end_ns + ranks_.shift_ns[s];
      if (ns > first_ns && ns < last_ns) events.push_back({ns, true, w});
    }
    std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
    return events;
  }

  void add_nodes() {
    // Time; host before GPU; activities as they started; their start before their end.
    using Order = std::tuple<std::int64_t, int, std::int64_t, std::size_t, std::size_t, int>;
    std::vector<std::pair<Order, Node>> all;
    rank_nodes_.resize(steps_.size());
    hosts_.resize(steps_.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      host_events_.push_back(host_events(s));
      for (std::size_t h = 0; h < host_events_[s].size(); ++h)
        all.push_back(
            {{host_events_[s][h].time_ns, 0, 0, s, h, 0},
             Node{.kind = NodeKind::host, .rank = s, .place = h, .time_ns = host_events_[s][h].time_ns, .edges = {}}});
      for (std::size_t p = 0; p < count(s); ++p) {
        const std::int64_t start = start_ns(s, p), end = end_ns(s, p);
        all.push_back({{start, 1, start, s, p, 0},
                       Node{.kind = NodeKind::start, .rank = s, .place = p, .time_ns = start, .edges = {}}});
        all.push_back({{end, 1, start, s, p, 1},
                       Node{.kind = NodeKind::end, .rank = s, .place = p, .time_ns = end, .edges = {}}});
      }
      rank_nodes_[s].start.resize(count(s));
      rank_nodes_[s].end.resize(count(s));
      hosts_[s].resize(host_events_[s].size());
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [order, node] : all) {
      std::vector<std::size_t>& ids = node.kind == NodeKind::host    ? hosts_[node.rank]
                                      : node.kind == NodeKind::start ? rank_nodes_[node.rank].start
                                                                     : rank_nodes_[node.rank].end;
      ids[node.place] = nodes_.size();
      nodes_.push_back(std::move(node));
    }
  }

  /// Not where it would go back in time: then the one did not wait for the other.
  void add_edge(std::size_t to, Edge edge) {
    if (edge.from >= to || nodes_[edge.from].time_ns > nodes_[to].time_ns) return;
    edge.lag_ns = std::min(edge.lag_ns, nodes_[to].time_ns - nodes_[edge.from].time_ns);
    nodes_[to].edges.push_back(edge);
  }

  void add_host_edges(std::size_t s) {
    const std::vector<std::size_t> by_end = places_by_end(s, [](std::size_t) { return true; });
    for (std::size_t h = 0; h < host_events_[s].size(); ++h) {
      const HostEvent& event = host_events_[s][h];
      const std::size_t own = hosts_[s][h];
      const std::int64_t before_ns = h == 0 ? event.time_ns : host_events_[s][h - 1].time_ns;
      std::int64_t lag_ns = event.time_ns - before_ns;
      if (event.waits) {
        const std::int64_t began_ns = steps_[s].trace.waits[event.place].start_ns + ranks_.shift_ns[s];
        const auto ended = last_ended(s, by_end, event.time_ns - 1);
        if (ended && end_ns(s, *ended) > began_ns) {
          const std::int64_t returns_ns = event.time_ns - end_ns(s, *ended);
          add_edge(own, {.from = rank_nodes_[s].end[*ended], .lag_ns = returns_ns});
          lag_ns = std::max<std::int64_t>(began_ns - before_ns, 0) + returns_ns;
        }
      }
      if (h > 0) add_edge(own, {.from = hosts_[s][h - 1], .lag_ns = lag_ns});
      if (!event.waits) add_edge(rank_nodes_[s].start[event.place], {.from = own});
    }
  }

  void add_stream_edges(std::size_t s) {
    std::map<std::int64_t, std::size_t> before;
    for (std::size_t p = 0; p < count(s); ++p) {
      const auto [found, first] = before.try_emplace(steps_[s].activity(p).stream, p);
      if (first) continue;
      add_edge(rank_nodes_[s].start[p], {.from = rank_nodes_[s].end[found->second], .of_stream = true});
      found->second = p;
    }
  }

  /// A kernel of NCCL waits for the computation launched before it.
  void add_launch_order_edges(std::size_t s) {
    std::vector<std::size_t> places(count(s));
    for (std::size_t p = 0; p < places.size(); ++p) places[p] = p;
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return launched_ns(s, a) < launched_ns(s, b); });
    std::optional<std::size_t> computed;
    for (const std::size_t p : places) {
      if (!is_nccl(s, p)) {
        computed = p;
      } else if (computed) {
        add_edge(rank_nodes_[s].start[p], {.from = rank_nodes_[s].end[*computed]});
      }
    }
  }

  template <typename Wanted>
  std::vector<std::size_t> places_by_end(std::size_t s, const Wanted& wanted) const {
    std::vector<std::size_t> places;
    for (std::size_t p = 0; p < count(s); ++p) {
      if (wanted(p)) places.push_back(p);
    }
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return end_ns(s, a) < end_ns(s, b); });
    return places;
  }

  /// Of places by their end: the last that had ended.
  std::optional<std::size_t> last_ended(std::size_t s, const std::vector<std::size_t>& by_end, std::int64_t ns) const {
    const auto after = std::upper_bound(by_end.begin(), by_end.end(), ns,
                                        [&](std::int64_t at_ns, std::size_t p) { return at_ns < end_ns(s, p); });
    return after == by_end.begin() ? std::nullopt : std::optional(*(after - 1));
  }

  /// Optimizers and copies out of buckets wait for the collectives; what starts later than all known edges explain, for
  /// what ended last.
  void add_edges_by_gaps(std::size_t s) {
    const std::vector<std::size_t> all = places_by_end(s, [](std::size_t) { return true; });
    const std::vector<std::size_t> collectives =
        places_by_end(s, [&](std::size_t p) { return part(s, p) == TracePart::collectives; });
    for (std::size_t p = 0; p < count(s); ++p) {
      const std::size_t own = rank_nodes_[s].start[p];
      if (part(s, p) == TracePart::optimizer || steps_[s].step().roles[p] == ActivityRole::bucket_copy_out)
        add_edge_from(s, own, last_ended(s, collectives, start_ns(s, p)), launched_ns(s, p));
      std::int64_t explained_ns = std::numeric_limits<std::int64_t>::min();
      for (const Edge& edge : nodes_[own].edges) explained_ns = std::max(explained_ns, nodes_[edge.from].time_ns);
      const auto ended = last_ended(s, all, start_ns(s, p));
      if (ended && end_ns(s, *ended) > explained_ns) add_edge_from(s, own, ended, launched_ns(s, p));
    }
  }

  /// Nobody waits for what is launched later.
  void add_edge_from(std::size_t s, std::size_t own, std::optional<std::size_t> place,
                     std::int64_t launched_before_ns) {
    if (place && launched_ns(s, *place) <= launched_before_ns) add_edge(own, {.from = rank_nodes_[s].end[*place]});
  }

  void add_collective_edges(std::size_t s) {
    for (std::size_t p = 0; p < count(s); ++p) add_edge(rank_nodes_[s].end[p], {.from = rank_nodes_[s].start[p]});
    for (const TracedCollective& collective : ranks_.collectives) {
      if (!collective.places[s]) continue;
      const std::size_t own = rank_nodes_[s].end[*collective.places[s]];
      for (std::size_t peer = 0; peer < steps_.size(); ++peer) {
        if (peer == s || !collective.places[peer]) continue;
        add_edge(own, {.from = rank_nodes_[peer].start[*collective.places[peer]], .of_peer = true});
      }
    }
  }

  void finish(Node& node) const {
    std::int64_t latest_ns = std::numeric_limits<std::int64_t>::min();
    for (std::size_t e = 0; e < node.edges.size(); ++e) {
      const std::int64_t ns = nodes_[node.edges[e].from].time_ns + node.edges[e].lag_ns;
      if (ns <= latest_ns) continue;
      latest_ns = ns;
      node.last = e;
    }
    if (node.last != kNobody) node.own_ns = node.time_ns - latest_ns;
  }

  const std::vector<TracedStep>& steps_;
  const TraceRanks& ranks_;
  std::vector<std::vector<HostEvent>> host_events_;  // by rank
  std::vector<Node> nodes_;
  std::vector<RankNodes> rank_nodes_;
  std::vector<std::vector<std::size_t>> hosts_;  // node, by rank and event
};

TraceCost cost_of(TracePart part) {
  switch (part) {
    case TracePart::forward: return TraceCost::forward;
    case TracePart::backward: return TraceCost::backward;
    case TracePart::optimizer: return TraceCost::optimizer;
    case TracePart::collectives: return TraceCost::collectives;
    case TracePart::messages: return TraceCost::transfers;
    case TracePart::copies: return TraceCost::copies;
    case TracePart::host: return TraceCost::host;
    case TracePart::waiting: break;
  }
  return TraceCost::waiting;
}

TraceCost cost_of(const TraceGraph& graph, const Node& node) {
  return graph.copies_into_bucket(node) ? TraceCost::copies : cost_of(graph.part(node));
}

/// The graph with all of its times, or without one of them.
class Walk {
 public:
  Walk(const TraceGraph& graph, const std::vector<std::vector<std::int64_t>>& contention)
      : graph_(graph), contention_(contention) {}

  /// From the first start to the last end.
  std::int64_t step_ns(std::optional<TraceCost> without) const {
    const std::vector<Node>& nodes = graph_.nodes();
    std::vector<std::int64_t> times(nodes.size());
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max(),
                 last_ns = std::numeric_limits<std::int64_t>::min();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      times[n] = time_ns(nodes[n], times, without);
      if (nodes[n].kind == NodeKind::start) first_ns = std::min(first_ns, times[n]);
      if (nodes[n].kind == NodeKind::end) last_ns = std::max(last_ns, times[n]);
    }
    return last_ns - first_ns;
  }

 private:
  std::int64_t time_ns(const Node& node, const std::vector<std::int64_t>& times,
                       std::optional<TraceCost> without) const {
    if (node.edges.empty()) return node.time_ns;
    std::int64_t latest_ns = std::numeric_limits<std::int64_t>::min();
    for (const Edge& edge : node.edges) {
      if (edge.of_peer && without == TraceCost::imbalance) continue;
      const bool free = without == TraceCost::host && node.kind == NodeKind::host;
      if (free && graph_.nodes()[edge.from].kind != NodeKind::host) continue;
      latest_ns = std::max(latest_ns, times[edge.from] + (free ? 0 : edge.lag_ns));
    }
    if (latest_ns == std::numeric_limits<std::int64_t>::min()) return node.time_ns;
    return latest_ns + own_ns(node, without);
  }

  std::int64_t own_ns(const Node& node, std::optional<TraceCost> without) const {
    if (!without) return node.own_ns;
    const NodeKind before = graph_.nodes()[node.edges[node.last].from].kind;
    if (without == TraceCost::host) return before == NodeKind::host ? 0 : node.own_ns;
    if (node.kind != NodeKind::end) return node.own_ns;
    if (without == TraceCost::contention)
      return node.own_ns - std::min(node.own_ns, contention_[node.rank][node.place]);
    return cost_of(graph_, node) == *without ? 0 : node.own_ns;
  }

  const TraceGraph& graph_;
  const std::vector<std::vector<std::int64_t>>& contention_;
};

/// From the last end back to the first start.
class PathBack {
 public:
  explicit PathBack(const TraceGraph& graph) : graph_(graph) {
    const std::vector<Node>& nodes = graph.nodes();
    std::size_t at = 0;
    first_ns_ = std::numeric_limits<std::int64_t>::max();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].kind == NodeKind::start) first_ns_ = std::min(first_ns_, nodes[n].time_ns);
      if (nodes[n].kind == NodeKind::end && (nodes[at].kind != NodeKind::end || nodes[n].time_ns >= nodes[at].time_ns))
        at = n;
    }
    while (nodes[at].time_ns > first_ns_) {
      const Node& node = nodes[at];
      if (node.last == kNobody) {
        add(node, first_ns_);
        break;
      }
      const std::size_t from = node.edges[node.last].from;
      add(node, std::max(nodes[from].time_ns, first_ns_));
      at = from;
    }
    std::reverse(path_.begin(), path_.end());
  }

  std::vector<TracePathSegment> path() && { return std::move(path_); }

 private:
  void add(const Node& node, std::int64_t from_ns) {
    const std::int64_t end_ns = std::exchange(gap_end_ns_, std::nullopt).value_or(node.time_ns);
    if (from_ns == end_ns) return;
    const bool gap_in_stream = node.kind == NodeKind::start && node.last != kNobody && from_ns > first_ns_ &&
                               node.edges[node.last].of_stream && end_ns - from_ns <= kGapInStream_ns;
    if (gap_in_stream) {
      gap_end_ns_ = end_ns;
      return;
    }
    const bool runs = node.kind == NodeKind::end;
    TracePathSegment segment{.rank = node.rank,
                             .part = runs                          ? cost_of(graph_, node)
                                     : node.kind == NodeKind::host ? TraceCost::host
                                                                   : TraceCost::waiting,
                             .name = runs ? short_name(graph_.activity(node)) : "",
                             .last_name = runs ? short_name(graph_.activity(node)) : "",
                             .start_ns = from_ns - first_ns_,
                             .end_ns = end_ns - first_ns_,
                             .activities = runs};
    if (!path_.empty() && path_.back().rank == segment.rank && path_.back().part == segment.part) {
      TracePathSegment& later = path_.back();
      later.name = segment.name;
      later.start_ns = segment.start_ns;
      later.activities += segment.activities;
      return;
    }
    path_.push_back(std::move(segment));
  }

  const TraceGraph& graph_;
  std::int64_t first_ns_ = 0;
  std::optional<std::int64_t> gap_end_ns_;  // of a gap that belongs to the segment before it
  std::vector<TracePathSegment> path_;      // the last first, until it is whole
};

/// Which parts the step has, of those that can be left out.
std::vector<TraceCost> parts_to_leave_out(const TraceExplanation& explanation, const TraceGraph& graph) {
  std::vector<TraceCost> parts;
  const auto add = [&](TraceCost part, bool there) {
    if (there) parts.push_back(part);
  };
  const auto runs = [&](TraceCost part) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [&](const Node& node) { return node.kind == NodeKind::end && cost_of(graph, node) == part; });
  };
  const bool contention = std::any_of(explanation.ranks.begin(), explanation.ranks.end(),
                                      [](const TraceCosts& costs) { return costs[TraceCost::contention] > 0; });
  add(TraceCost::host, std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                   [](const Node& node) { return node.kind == NodeKind::host; }));
  add(TraceCost::collectives, runs(TraceCost::collectives));
  add(TraceCost::imbalance, explanation.peers_known);
  add(TraceCost::transfers, runs(TraceCost::transfers));
  add(TraceCost::contention, contention);
  add(TraceCost::copies, runs(TraceCost::copies));
  add(TraceCost::optimizer, runs(TraceCost::optimizer));
  return parts;
}

}  // namespace

void walk_graph(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                const std::vector<std::vector<std::int64_t>>& contention, TraceExplanation& explanation) {
  const TraceGraph graph(steps, ranks);
  const Walk walk(graph, contention);
  explanation.step_ns = walk.step_ns(std::nullopt);
  explanation.critical_path = PathBack(graph).path();
  for (const TracePathSegment& segment : explanation.critical_path)
    explanation.path[segment.part] += segment.end_ns - segment.start_ns;
  for (const TraceCost part : parts_to_leave_out(explanation, graph))
    explanation.without.push_back({part, walk.step_ns(part)});
}

}  // namespace pdl
