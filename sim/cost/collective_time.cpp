#include "sim/cost/collective_time.hpp"

#include <algorithm>
#include <cmath>

#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

/// What an algorithm sends, in buffers, and in how many steps one after another.
struct Algorithm {
  double volume = 0;
  double steps = 0;
};

Algorithm ring(const std::string& operation, double n) {
  if (operation == "all_reduce") return {2 * (n - 1) / n, 2 * (n - 1)};
  if (operation == "broadcast" || operation == "reduce") return {1, n - 1};
  return {(n - 1) / n, n - 1};
}

Algorithm tree(const std::string& operation, double n) {
  if (operation == "all_reduce") return {2, 2 * std::log2(n)};
  if (operation == "broadcast" || operation == "reduce") return {1, std::log2(n)};
  return ring(operation, n);
}

}  // namespace

CollectiveTime CollectiveTimes::at(const Collective& collective) {
  if (collective.ranks <= 1 || collective.bytes == 0) return {};
  const Parts inside = inside_hosts(collective);
  if (collective.hosts <= 1) return {inside.latency_ns + inside.volume_ns, inside.blocks, inside.issue_ns};
  const Parts between = between_hosts(collective, inside.volume_ns);
  notices_.say("extrapolated: " + collective.operation + " over " + std::to_string(collective.hosts) + " hosts, of a network of " +
               to_text(collective.network_bytes_per_s / 1e9) + " GB/s a host and " + to_text(collective.network_latency_ns / 1e3) +
               " us (--network-gb-per-s, --network-latency-us: nobody has measured it)");
  return {inside.latency_ns + between.latency_ns + std::max(inside.volume_ns, between.volume_ns), inside.blocks,
          inside.issue_ns};
}

const MeasuredCurve* CollectiveTimes::nearest_group(const Collective& collective, bool with_blocks) const {
  const MeasuredCurve* nearest = nullptr;
  const auto far = [&](const MeasuredCurve& measured) {
    return std::abs(std::log(static_cast<double>(measured.key.ranks) / static_cast<double>(collective.ranks)));
  };
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.operation != collective.operation || key.transport != collective.transport) continue;
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
  const CurveReading reading = read(measured.curve, bytes);
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
  if (read(nearest->curve, collective.bytes).extrapolated()) {
    notices_.extrapolated("bytes of " + collective.operation + " " + collective.transport, collective.bytes,
                          nearest->curve.least(), nearest->curve.largest());
  }
  Parts parts = parts_of(*nearest, collective.bytes);
  parts.blocks = blocks_of(collective);
  if (nearest->key.ranks == collective.ranks) return parts;
  const Neighbours known = neighbours(collective);
  const std::string what = collective.operation + " of " + std::to_string(collective.ranks) + " ranks from ";
  if (known.below && known.above) {
    notices_.say("between measured groups: " + what + std::to_string(known.below) + " and " + std::to_string(known.above) + " measured");
    const auto log = [](std::int64_t ranks) { return std::log(static_cast<double>(ranks)); };
    const double part = (log(collective.ranks) - log(known.below)) / (log(known.above) - log(known.below));
    const double most_ns = std::max(known.above_ns, known.least_ns);
    return parts.scaled_to(known.least_ns * std::pow(most_ns / known.least_ns, part));
  }
  notices_.say("extrapolated: " + what + std::to_string(nearest->key.ranks) + " measured, by the byte counts of ring and tree");
  parts = of_other_group(parts, collective, nearest->key.ranks);
  return parts.scaled_to(std::max(parts.total_ns(), known.least_ns));
}

CollectiveTimes::Neighbours CollectiveTimes::neighbours(const Collective& collective) const {
  Neighbours known;
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.operation != collective.operation || key.transport != collective.transport) continue;
    const double ns = read(measured.curve, collective.bytes).time_ns;
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

CollectiveTimes::Parts CollectiveTimes::of_other_group(const Parts& measured, const Collective& collective, std::int64_t measured_ranks) {
  const auto from = static_cast<double>(measured_ranks), to = static_cast<double>(collective.ranks);
  const Algorithm ring_from = ring(collective.operation, from), ring_to = ring(collective.operation, to);
  const Algorithm tree_from = tree(collective.operation, from), tree_to = tree(collective.operation, to);
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

CollectiveTimes::Parts CollectiveTimes::between_hosts(const Collective& collective, double inside_volume_ns) {
  const auto parts = [&](const Algorithm& of_ranks, const Algorithm& of_hosts) {
    return Parts{of_hosts.steps * collective.network_latency_ns,
                 of_ranks.volume * static_cast<double>(collective.bytes) / collective.network_bytes_per_s * 1e9};
  };
  const auto ranks = static_cast<double>(collective.ranks), hosts = static_cast<double>(collective.hosts);
  const Parts by_ring = parts(ring(collective.operation, ranks), ring(collective.operation, hosts));
  const Parts by_tree = parts(tree(collective.operation, ranks), tree(collective.operation, hosts));
  // The network is at it while the links inside are: the longer of the two counts.
  const auto beside_inside_ns = [&](const Parts& parts) { return parts.latency_ns + std::max(parts.volume_ns, inside_volume_ns); };
  return beside_inside_ns(by_ring) <= beside_inside_ns(by_tree) ? by_ring : by_tree;
}

}  // namespace pdl
