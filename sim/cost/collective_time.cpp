#include "sim/cost/collective_time.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/nccl_between_hosts.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// What an algorithm sends, in buffers, and in how many steps one after another.
struct AlgorithmCosts {
  double volume = 0;
  double steps = 0;
};

AlgorithmCosts ring(const std::string& operation, double n) {
  if (operation == "all_reduce") return {2 * (n - 1) / n, 2 * (n - 1)};
  if (operation == "broadcast" || operation == "reduce") return {1, n - 1};
  return {(n - 1) / n, n - 1};
}

AlgorithmCosts tree(const std::string& operation, double n) {
  if (operation == "all_reduce") return {2, 2 * std::log2(n)};
  if (operation == "broadcast" || operation == "reduce") return {1, std::log2(n)};
  return ring(operation, n);
}

/// "16 GPUs on 2 hosts"
std::string on_hosts(std::int64_t gpus, std::int64_t hosts) {
  return std::to_string(gpus) + " GPUs on " + (hosts == 1 ? "one host" : std::to_string(hosts) + " hosts");
}

std::string microseconds(double ns) {
  return to_text(std::round(ns / 100) / 10) + " us";
}

}  // namespace

CollectiveTime CollectiveTimes::at(const Collective& collective) {
  if (collective.ranks <= 1 || collective.bytes == 0) return {};
  const bool host_known = nearest_group(collective, false) != nullptr;
  const MeasuredCurve* cluster = nearest_cluster(collective);
  if (cluster && (collective.hosts > 1 || !host_known)) return of_cluster(collective, *cluster);
  const Parts inside = inside_hosts(collective);
  if (collective.hosts <= 1) return inside.time();
  Parts between = collective.transport == "nccl" ? by_nccl(collective, inside) : by_ring(collective, inside);
  between = between.at_least(inside.total_ns());  // several hosts are never faster than one
  between.blocks = inside.blocks;
  between.issue_ns = inside.issue_ns;
  return between.time();
}

const MeasuredCurve* CollectiveTimes::nearest_group(const Collective& collective, bool with_blocks) const {
  const MeasuredCurve* nearest = nullptr;
  const auto far = [&](const MeasuredCurve& measured) {
    return std::abs(std::log(static_cast<double>(measured.key.ranks) / static_cast<double>(collective.ranks)));
  };
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.hosts > 1 || key.operation != collective.operation || key.transport != collective.transport) continue;
    if (with_blocks && nearest_point(measured.curve, collective.bytes).kernels.empty()) continue;
    if (!nearest || far(measured) <= far(*nearest)) nearest = &measured;  // of equals the larger group
  }
  return nearest;
}

std::int64_t CollectiveTimes::blocks_of(const Collective& collective) {
  if (const MeasuredCurve* measured = nearest_group(collective, true)) {
    return nearest_point(measured->curve, collective.bytes).kernels.front().blocks;
  }
  if (collective.transport == "nccl") {
    notices_.say("not in profile " + profile_.name + ": thread blocks of " + collective.operation +
                 "; taken as none: compute beside it is not slowed");
  }
  return 0;
}

CollectiveTimes::Parts CollectiveTimes::parts_of(const MeasuredCurve& measured, std::int64_t bytes) const {
  const CurveReading reading = read_curve(measured.curve, bytes);
  Parts parts;
  parts.issue_ns = read_issue_ns(measured.curve, bytes);
  parts.latency_ns = std::min(reading.time_ns, measured.curve.points.front().time_ns);
  for (const CurvePoint& point : measured.curve.points) parts.latency_ns = std::min(parts.latency_ns, point.time_ns);
  parts.volume_ns = reading.time_ns - parts.latency_ns;
  return parts;
}

CollectiveTimes::Parts CollectiveTimes::inside_hosts(const Collective& collective) {
  const MeasuredCurve* nearest = nearest_group(collective, false);
  if (!nearest) {
    throw InputError("profile " + profile_.name, "no " + collective.operation + " by " + collective.transport,
                     "one: pdl-calibrate measures it on two GPUs or more (or --from-nccl-tests FILE)");
  }
  if (read_curve(nearest->curve, collective.bytes).extrapolated()) {
    notices_.extrapolated("bytes of " + collective.operation + " " + collective.transport, collective.bytes,
                          nearest->curve.least(), nearest->curve.largest());
  }
  Parts parts = parts_of(*nearest, collective.bytes);
  parts.blocks = blocks_of(collective);
  if (nearest->key.ranks == collective.ranks) return parts;
  const Neighbours known = neighbours(collective);
  const std::string what = collective.operation + " of " + std::to_string(collective.ranks) + " ranks from ";
  if (known.below && known.above) {
    notices_.say("between measured groups: " + what + std::to_string(known.below) + " and " +
                 std::to_string(known.above) + " measured");
    const auto log = [](std::int64_t ranks) { return std::log(static_cast<double>(ranks)); };
    const double part = (log(collective.ranks) - log(known.below)) / (log(known.above) - log(known.below));
    const double most_ns = std::max(known.above_ns, known.least_ns);
    return parts.scaled_to(known.least_ns * std::pow(most_ns / known.least_ns, part));
  }
  notices_.say("extrapolated: " + what + std::to_string(nearest->key.ranks) +
               " measured, by the byte counts of ring and tree");
  parts = of_other_group(parts, collective, nearest->key.ranks);
  return parts.scaled_to(std::max(parts.total_ns(), known.least_ns));
}

CollectiveTimes::Neighbours CollectiveTimes::neighbours(const Collective& collective) const {
  Neighbours known;
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.hosts > 1 || key.operation != collective.operation || key.transport != collective.transport) continue;
    const double ns = read_curve(measured.curve, collective.bytes).time_ns;
    if (key.ranks < collective.ranks) {
      known.below = std::max(known.below, key.ranks);
      known.least_ns = std::max(known.least_ns, ns);
    } else if (key.ranks > collective.ranks && (known.above == 0 || key.ranks < known.above)) {
      known.above = key.ranks;
      known.above_ns = ns;
    }
  }
  return known;
}

CollectiveTimes::Parts CollectiveTimes::of_other_group(const Parts& measured, const Collective& collective,
                                                       std::int64_t measured_ranks) {
  const auto from = static_cast<double>(measured_ranks), to = static_cast<double>(collective.ranks);
  const AlgorithmCosts ring_from = ring(collective.operation, from), ring_to = ring(collective.operation, to);
  const AlgorithmCosts tree_from = tree(collective.operation, from), tree_to = tree(collective.operation, to);
  const auto scaled = [&](double steps, double volume) {
    Parts parts = measured;
    parts.latency_ns *= steps;
    parts.volume_ns *= volume;
    return parts;
  };
  // What was measured of small buffers was as fast as a tree, of large ones as a ring.
  if (to < from) return scaled(tree_to.steps / tree_from.steps, ring_to.volume / ring_from.volume);
  const Parts by_ring = scaled(ring_to.steps / ring_from.steps, ring_to.volume / ring_from.volume);
  const Parts by_tree = scaled(tree_to.steps / tree_from.steps, tree_to.volume / ring_from.volume);
  return by_ring.total_ns() <= by_tree.total_ns() ? by_ring : by_tree;
}

CollectiveTimes::Parts CollectiveTimes::by_nccl(const Collective& collective, const Parts& inside) {
  CollectiveBetweenHosts between;
  between.operation = collective.operation;
  between.card = profile_.host_description.card;
  between.ranks = collective.ranks;
  between.hosts = collective.hosts;
  between.bytes = collective.bytes;
  between.network_bytes_per_s = collective.network_bytes_per_s;
  between.network_latency_ns = collective.network_latency_ns;
  const MeasuredCurve& measured = *nearest_group(collective, false);
  const std::int64_t largest = measured.curve.points.back().size;
  const double volume = ring(collective.operation, static_cast<double>(measured.key.ranks)).volume;
  between.link_bytes_per_s =
      volume * static_cast<double>(largest) / std::max(1.0, parts_of(measured, largest).volume_ns) * 1e9;
  Collective of_a_host = collective;
  of_a_host.ranks = collective.ranks / collective.hosts;
  of_a_host.hosts = 1;
  Notices not_said;  // what is between hosts is said as a whole
  if (of_a_host.ranks > 1) between.inside_ns = CollectiveTimes(profile_, not_said).inside_hosts(of_a_host).volume_ns;
  const TimeBetweenHosts time = nccl_between_hosts(between);
  say_network(collective, "by NCCL's " + time.algorithm, "within a quarter for two hosts, unknown beyond");
  say_choice(collective, time, inside);
  return {time.latency_ns, time.transfer_ns};
}

/// "all_reduce of 32 GPUs on 4 hosts, 1073741824 bytes: 5929.1 us; a tree takes 7391.0, a ring, which NCCL takes,
/// 5929.1"
void CollectiveTimes::say_choice(const Collective& collective, const TimeBetweenHosts& time, const Parts& inside) {
  if (time.tree_ns == 0) return;
  const std::string what = collective.operation + " of " + on_hosts(collective.ranks, collective.hosts);
  const bool by_ring = time.algorithm.starts_with("ring");
  std::string text = what + ", " + std::to_string(collective.bytes) + " bytes: ";
  text += microseconds(std::max(time.total_ns(), inside.total_ns())) + "; a tree" +
          (by_ring ? "" : ", which NCCL takes,") + " is estimated at " + microseconds(time.tree_ns);
  if (time.ring_ns > 0) {
    text += std::string(", a ring") + (by_ring ? ", which NCCL takes," : "") + " at " + microseconds(time.ring_ns);
  }
  if (time.total_ns() < inside.total_ns()) {
    text += "; no less than if all were on one host";
  } else if (time.hosts < collective.hosts) {
    text += "; no less than on " + std::to_string(time.hosts) + " of these hosts by NCCL's " + time.algorithm;
  } else if (time.changeover) {
    text += "; between them, as NCCL goes over to the ring just below this size";
  }
  notices_.say_of_largest(what, collective.bytes, text);
}

CollectiveTimes::Parts CollectiveTimes::by_ring(const Collective& collective, const Parts& inside) {
  const double steps = ring(collective.operation, static_cast<double>(collective.hosts)).steps;
  const double volume = ring(collective.operation, static_cast<double>(collective.ranks)).volume;
  const double network_ns = volume * static_cast<double>(collective.bytes) / collective.network_bytes_per_s * 1e9;
  say_network(collective, "by a ring", "compared with no measurement");
  // The network is at it while the links inside are: the longer of the two counts.
  return {inside.latency_ns + steps * collective.network_latency_ns, std::max(inside.volume_ns, network_ns)};
}

void CollectiveTimes::say_network(const Collective& collective, const std::string& how, const std::string& how_well) {
  std::string text = "extrapolated: " + collective.operation + " of " + on_hosts(collective.ranks, collective.hosts) +
                     " " + how + ", over a network of " + to_text(collective.network_bytes_per_s / 1e9) +
                     " GB/s a host";
  if (collective.network_latency_ns > 0)
    text += " and " + to_text(collective.network_latency_ns / 1e3) + " us more a message";
  notices_.say(text + " (--network-gb-per-s, --network-latency-us): estimated, not measured: " + how_well);
}

const MeasuredCurve* CollectiveTimes::nearest_cluster(const Collective& collective) const {
  const MeasuredCurve* nearest = nullptr;
  const auto far = [](std::int64_t a, std::int64_t b) {
    return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
  };
  const auto distance = [&](const MeasuredKey& key) {
    return std::pair(far(key.hosts, collective.hosts), far(key.ranks, collective.ranks));
  };
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.hosts == 1 || key.operation != collective.operation || key.transport != collective.transport) continue;
    if (!nearest || distance(key) < distance(nearest->key)) nearest = &measured;
  }
  return nearest;
}

CollectiveTime CollectiveTimes::of_cluster(const Collective& collective, const MeasuredCurve& measured) {
  const CurveReading reading = read_curve(measured.curve, collective.bytes);
  if (reading.extrapolated()) {
    notices_.extrapolated("bytes of " + collective.operation + " " + collective.transport, collective.bytes,
                          measured.curve.least(), measured.curve.largest());
  }
  Parts parts = parts_of(measured, collective.bytes);
  parts.blocks = blocks_of(collective);
  const MeasuredKey& key = measured.key;
  if (collective.network_given && collective.hosts > 1) {
    notices_.say("not used: the network that was given; " + collective.operation + " was measured on " +
                 std::to_string(key.hosts) + " hosts, with theirs");
  }
  if (key.ranks == collective.ranks && key.hosts == collective.hosts)
    return {reading.time_ns, parts.blocks, parts.issue_ns};
  const std::string what = "extrapolated: " + collective.operation + " of " +
                           on_hosts(collective.ranks, collective.hosts) + " from " + on_hosts(key.ranks, key.hosts) +
                           " measured";
  const Parts most = of_other_cluster(parts, collective, key).at_least(least_of_smaller_clusters(collective));
  if (collective.hosts == 1) {
    notices_.say(what + ", with its network: what one host takes nobody has measured, hardly more than this");
  } else if (collective.operation != "all_reduce") {
    notices_.say(what + ", by the byte counts of a ring");
  } else {
    notices_.say(what + ", by the bytes of the busiest host in a tree of hosts");
    say_bounds(collective, parts, most);
  }
  return most.time();
}

/// `measured`: of the cluster that was. A host's network may carry more than there; the links inside carry no more.
void CollectiveTimes::say_bounds(const Collective& collective, const Parts& measured, const Parts& most) {
  const double least_ns = std::max(most.latency_ns + measured.volume_ns, least_of_smaller_clusters(collective));
  if (least_ns >= most.total_ns()) return;
  const std::string what = collective.operation + " of " + on_hosts(collective.ranks, collective.hosts);
  notices_.say_of_largest(what, collective.bytes,
                          what + ", " + std::to_string(collective.bytes) + " bytes: between " + microseconds(least_ns) +
                              ", if the links inside the hosts limit it, and " + microseconds(most.total_ns()) +
                              ", if their network does; the second is taken");
}

double CollectiveTimes::least_of_smaller_clusters(const Collective& collective) {
  double least_ns = 0;
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.operation != collective.operation || key.transport != collective.transport) continue;
    if (key.hosts > collective.hosts || key.ranks > collective.ranks) continue;
    least_ns = std::max(least_ns, read_curve(measured.curve, collective.bytes).time_ns);
  }
  return least_ns;
}

CollectiveTimes::Parts CollectiveTimes::of_other_cluster(const Parts& measured, const Collective& collective,
                                                         const MeasuredKey& key) {
  const auto from = static_cast<double>(key.ranks), to = static_cast<double>(collective.ranks);
  const double steps = tree(collective.operation, to).steps / tree(collective.operation, from).steps;
  double volume = ring(collective.operation, to).volume / ring(collective.operation, from).volume;
  if (collective.operation == "all_reduce" && collective.hosts > 1) {  // what a network carries in a tree of hosts
    volume = busiest_host_of_tree(static_cast<double>(collective.hosts)) /
             busiest_host_of_tree(static_cast<double>(key.hosts));
  }
  Parts parts = measured;
  parts.latency_ns *= steps;
  parts.volume_ns *= volume;
  return parts;
}

}  // namespace pdl
