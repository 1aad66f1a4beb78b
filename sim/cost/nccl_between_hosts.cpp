#include "sim/cost/nccl_between_hosts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace pdl {
namespace {

constexpr double kNicEfficiency = 0.94;                   // of a NIC's bandwidth, as NCCL gets it (nccl-tests #290)
constexpr double kPlateauOfRings = 1.4;                   // Simple, all-reduce (tuning.cc, ncclTopoGetAlgoTime)
constexpr double kLeastChannels = 2, kMostChannels = 16;  // as NCCL_DEBUG=INFO shows them on hosts with 8 GPUs and NICs

/// Of tuning.cc, ncclTunerConstantsDefaults, for rings and trees: baseLatencies, hwLatencies of NVLINK and of NET.
struct Latencies {
  double call_us, inside_us, network_us;
};

struct Protocol {
  const char* name;
  Latencies ring, tree;
  double proxy_us;     // of a ring's step: getNetOverhead, three times with Simple
  double flushes;      // messages between hosts that pay the network's latency once more
  double wire_bytes;   // of a byte of data: LL sends a flag of 4 bytes with every 4
  double chunk_bytes;  // of a channel, at most
};

constexpr double kKiB = 1024;
// LL: 8 lines of 16 bytes of 512 threads, half of them data (device.h). Simple: 4 MiB in 8 steps (init.cc).
constexpr std::array kProtocols = {
    Protocol{"LL", {6.6, 0.6, 2.7}, {6.8, 0.6, 5.0}, 1.0, 0, 2, 32 * kKiB},
    Protocol{"Simple", {8.4, 3.4, 14.0}, {8.4, 4.0, 14.0}, 3.0, 1, 1, 512 * kKiB},
};

/// Bytes a second by generation: perChMaxTreeBws of two hosts and of more, llMaxBws of one host. Bus bandwidths: halved
/// for a tree.
struct Generation {
  std::vector<const char*> cards;
  double tree_of_two, tree_of_more, ll;
};

const Generation& generation_of(const std::string& card) {
  static const std::array<Generation, 4> known = {
      {{{"H100", "H200", "H800", "H20", "GH200"}, 41.4e9, 36.0e9, 141.0e9},
       {{"B100", "B200", "B300", "GB200", "GB300"}, 42.8e9, 24.0e9, 282.0e9},
       {{"A100", "A800", "A40", "A30", "A10"}, 23.6e9, 17.8e9, 87.7e9},
       {{"V100"}, 18.5e9, 10.0e9, 39.0e9}}};
  for (const Generation& generation : known) {
    for (const char* name : generation.cards) {
      if (card.find(name) != std::string::npos) return generation;
    }
  }
  return known.front();
}

/// llMaxBws between hosts: of proxies on Intel's CPUs, which NCCL also takes for those that it does not know.
double ll_between_hosts(double hosts) {
  return hosts <= 2 ? 39.0e9 : 20.4e9;
}

/// What one chunk passes, and what all of them load.
struct Path {
  double steps_inside = 0, steps_between = 0;  // one after another, each with a latency
  double gpus = 0, networks = 0;               // that a chunk passes one after another; 0: the algorithm goes by steps
  double network_volume = 0;                   // that a host's network carries each way, in buffers
  double bus_share = 1;                        // of a bus bandwidth, in buffers a second
};

Path tree_path(double ranks, double hosts) {
  const double depth = std::ceil(std::log2(hosts)), chain = ranks / hosts;
  return {2 * (chain - 1), 2 * depth, 2 * (chain + depth), 2 * depth, 2 * (hosts - 1) / hosts, 0.5};
}

Path ring_path(const std::string& operation, double ranks, double hosts) {
  if (operation == "broadcast" || operation == "reduce") return {ranks - hosts, hosts - 1, ranks, hosts - 1, 1, 1};
  const double rounds = operation == "all_reduce" ? 2 : 1;
  return {rounds * (ranks - hosts),     rounds * (hosts - 1),          0, 0,
          rounds * (ranks - 1) / ranks, ranks / (rounds * (ranks - 1))};
}

class Estimate {
 public:
  explicit Estimate(const CollectiveBetweenHosts& collective)
      : collective_(collective),
        ranks_(static_cast<double>(collective.ranks)),
        hosts_(static_cast<double>(collective.hosts)),
        bytes_(static_cast<double>(collective.bytes)),
        network_(kNicEfficiency * collective.network_bytes_per_s) {
    const Generation& generation = generation_of(collective.card);
    tree_channel_ = (hosts_ <= 2 ? generation.tree_of_two : generation.tree_of_more) / 2;
    // As many channels as carry what the links were measured to carry.
    channels_ = std::clamp(std::ceil(collective.link_bytes_per_s / tree_channel_), kLeastChannels, kMostChannels);
    ll_channel_ = generation.ll / 2 / channels_;
  }

  TimeBetweenHosts fastest() const {
    TimeBetweenHosts best;
    const bool reduces_for_all = collective_.operation == "all_reduce";
    for (const Protocol& protocol : kProtocols) {
      if (reduces_for_all) keep_faster(best, tree(protocol));
      // NCCL reckons with a tree of two hosts as fast as their links inside, and takes no ring.
      if (!reduces_for_all || collective_.hosts > 2) keep_faster(best, ring(protocol));
    }
    return best;
  }

 private:
  static void keep_faster(TimeBetweenHosts& best, TimeBetweenHosts other) {
    if (best.algorithm.empty() || other.total_ns() < best.total_ns()) best = std::move(other);
  }

  TimeBetweenHosts tree(const Protocol& protocol) const {
    const Path path = tree_path(ranks_, hosts_);
    return {std::string("tree, ") + protocol.name, latency_ns(protocol, protocol.tree, path),
            transfer_ns(protocol, path)};
  }

  TimeBetweenHosts ring(const Protocol& protocol) const {
    Latencies latencies = protocol.ring;
    const Path path = ring_path(collective_.operation, ranks_, hosts_);
    latencies.inside_us = std::max(latencies.inside_us, protocol.proxy_us);
    double ns = latency_ns(protocol, latencies, path);
    if (collective_.operation == "all_reduce" && protocol.flushes > 0) ns *= kPlateauOfRings;
    return {std::string("ring, ") + protocol.name, ns, transfer_ns(protocol, path)};
  }

  double latency_ns(const Protocol& protocol, const Latencies& of, const Path& path) const {
    const double message_ns = of.network_us * 1e3 + collective_.network_latency_ns * (1 + protocol.flushes);
    return of.call_us * 1e3 + path.steps_inside * of.inside_us * 1e3 + path.steps_between * message_ns;
  }

  double transfer_ns(const Protocol& protocol, const Path& path) const {
    const bool ll = protocol.wire_bytes > 1;
    const double gpu = channels_ * std::min(ll ? ll_channel_ : tree_channel_, collective_.link_bytes_per_s / channels_);
    const double proxies = ll_between_hosts(hosts_) * path.bus_share;
    const double network = ll ? std::min(network_ / protocol.wire_bytes, proxies) : network_;
    const double chunks_in_flight = path.gpus > 0 ? std::min(bytes_, channels_ * protocol.chunk_bytes) : 0;
    const double first_s = chunks_in_flight * (path.gpus / gpu + path.networks / network);
    double slowest_s = std::max(path.network_volume * protocol.wire_bytes / network_, ll ? 1 / proxies : 0);
    if (path.gpus > 0) slowest_s = std::max(slowest_s, 1 / gpu);
    slowest_s = std::max(slowest_s, collective_.inside_ns / 1e9 / bytes_);
    return (first_s + (bytes_ - chunks_in_flight) * slowest_s) * 1e9;
  }

  const CollectiveBetweenHosts& collective_;
  double ranks_, hosts_, bytes_, network_;
  double channels_ = 0, tree_channel_ = 0, ll_channel_ = 0;
};

}  // namespace

TimeBetweenHosts fastest_between_hosts(const CollectiveBetweenHosts& collective) {
  TimeBetweenHosts time = Estimate(collective).fastest();
  const auto no_less_than = [&](const CollectiveBetweenHosts& smaller) {
    const TimeBetweenHosts other = Estimate(smaller).fastest();
    if (other.total_ns() > time.total_ns()) time = {time.algorithm, other.latency_ns, other.transfer_ns};
  };
  CollectiveBetweenHosts fewer = collective;
  fewer.hosts = 2;
  fewer.ranks = 2 * (collective.ranks / collective.hosts);
  no_less_than(fewer);  // for which there is no ring
  // A chain in a host is longer than a tree's way through as many hosts: with networks as fast as links more hosts
  // would win.
  fewer.ranks = collective.ranks;
  for (fewer.hosts = 2; fewer.hosts < collective.hosts; ++fewer.hosts) {
    if (fewer.ranks % fewer.hosts == 0) no_less_than(fewer);
  }
  return time;
}

}  // namespace pdl
