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
  const Algorithm known = ring(collective.operation, static_cast<double>(measured.key.ranks));
  const auto scaled = [&](const Algorithm& algorithm) {
    Parts scaled_parts = parts;
    scaled_parts.latency_ns *= algorithm.steps / known.steps;
    scaled_parts.volume_ns *= algorithm.volume / known.volume;
    return scaled_parts;
  };
  const Parts by_ring = scaled(ring(collective.operation, static_cast<double>(collective.ranks)));
  const Parts by_tree = scaled(tree(collective.operation, static_cast<double>(collective.ranks)));
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
