#include "sim/cost/collective_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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
  const Parts between = between_hosts(collective);
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
    if (key.operation != collective.operation || key.transport != collective.transport || key.ranks < 2) continue;
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

CollectiveTimes::Parts CollectiveTimes::inside_hosts(const Collective& collective) {
  const MeasuredCurve* nearest = nearest_group(collective, false);
  if (!nearest) {
    throw InputError("profile " + profile_.name, "no " + collective.operation + " by " + collective.transport,
                     "one: pdl-calibrate measures it on two GPUs or more (or --from-nccl-tests FILE)");
  }
  const MeasuredCurve& measured = *nearest;
  const CurveReading reading = read(measured.curve, collective.bytes);
  Parts parts;
  parts.blocks = blocks_of(collective);
  parts.issue_ns = read_issue_ns(measured.curve, collective.bytes);
  parts.latency_ns = std::min(reading.time_ns, measured.curve.points.front().time_ns);
  for (const CurvePoint& point : measured.curve.points) parts.latency_ns = std::min(parts.latency_ns, point.time_ns);
  parts.volume_ns = reading.time_ns - parts.latency_ns;
  if (reading.extrapolated()) {
    notices_.extrapolated("bytes of " + collective.operation + " " + collective.transport, collective.bytes,
                          measured.curve.least(), measured.curve.largest());
  }
  if (measured.key.ranks == collective.ranks) return parts;
  notices_.say("extrapolated: " + collective.operation + " of " + std::to_string(collective.ranks) + " ranks from " +
               std::to_string(measured.key.ranks) + " measured, by the byte counts of ring and tree");
  return between_measured(of_other_group(parts, collective, measured.key.ranks), collective);
}

CollectiveTimes::Parts CollectiveTimes::between_measured(Parts parts, const Collective& collective) const {
  double least_ns = 0, most_ns = std::numeric_limits<double>::infinity();
  for (const MeasuredCurve& measured : profile_.of(Probe::collective)) {
    const MeasuredKey& key = measured.key;
    if (key.operation != collective.operation || key.transport != collective.transport || key.ranks < 2) continue;
    const double ns = read(measured.curve, collective.bytes).time_ns;
    if (key.ranks < collective.ranks) least_ns = std::max(least_ns, ns);
    if (key.ranks > collective.ranks) most_ns = std::min(most_ns, ns);
  }
  const double ns = parts.latency_ns + parts.volume_ns;
  const double scale = std::max(std::min(ns, most_ns), least_ns) / ns;
  parts.latency_ns *= scale;
  parts.volume_ns *= scale;
  return parts;
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
  return by_ring.latency_ns + by_ring.volume_ns <= by_tree.latency_ns + by_tree.volume_ns ? by_ring : by_tree;
}

CollectiveTimes::Parts CollectiveTimes::between_hosts(const Collective& collective) {
  const auto parts = [&](const Algorithm& of_ranks, const Algorithm& of_hosts) {
    return Parts{of_hosts.steps * collective.network_latency_ns,
                 of_ranks.volume * static_cast<double>(collective.bytes) / collective.network_bytes_per_s * 1e9};
  };
  const auto ranks = static_cast<double>(collective.ranks), hosts = static_cast<double>(collective.hosts);
  const Parts by_ring = parts(ring(collective.operation, ranks), ring(collective.operation, hosts));
  const Parts by_tree = parts(tree(collective.operation, ranks), tree(collective.operation, hosts));
  return by_ring.latency_ns + by_ring.volume_ns <= by_tree.latency_ns + by_tree.volume_ns ? by_ring : by_tree;
}

}  // namespace pdl
