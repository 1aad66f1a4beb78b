#include "sim/cost/nccl_between_hosts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/nccl_tuning.hpp"

namespace pdl {
namespace {

constexpr double kNicEfficiency = 0.94;                   // of a NIC's bandwidth, as NCCL gets it (nccl-tests #290)
constexpr double kLeastChannels = 2, kMostChannels = 16;  // as NCCL_DEBUG=INFO shows them on hosts with 8 GPUs and NICs
constexpr double kMostBytes = 1ULL << 44;
constexpr int kHalvings = 30;  // of the sizes between which NCCL changes over

/// What one chunk passes, and what all of them load.
struct Path {
  double steps_inside = 0, steps_between = 0;  // one after another, each with a latency
  double gpus = 0, networks = 0;               // that a chunk passes one after another; 0: the algorithm goes by steps
  double network_volume = 0;                   // that the busiest host's network carries each way, in buffers
  double bus_share = 1;                        // of a bus bandwidth, in buffers a second
};

Path tree_path(double ranks, double hosts) {
  const double depth = std::ceil(std::log2(hosts)), chain = ranks / hosts;
  return {2 * (chain - 1), 2 * depth, 2 * (chain + depth), 2 * depth, busiest_host_of_tree(hosts), 0.5};
}

Path ring_path(const std::string& operation, double ranks, double hosts) {
  if (operation == "broadcast" || operation == "reduce") return {ranks - hosts, hosts - 1, ranks, hosts - 1, 1, 1};
  const double rounds = operation == "all_reduce" ? 2 : 1;
  return {rounds * (ranks - hosts),     rounds * (hosts - 1),          0, 0,
          rounds * (ranks - 1) / ranks, ranks / (rounds * (ranks - 1))};
}

NcclHosts hosts_of(const CollectiveBetweenHosts& collective, const NcclConstants& constants) {
  // As many channels as carry what the links were measured to carry.
  const double channels =
      std::clamp(std::ceil(collective.link_bytes_per_s / (constants.tree_of_two / 2)), kLeastChannels, kMostChannels);
  return {collective.ranks,
          collective.hosts,
          channels,
          collective.network_bytes_per_s,
          collective.link_bytes_per_s,
          collective.network_latency_ns / 1e3};
}

/// One number of bytes on one number of hosts.
class Estimate {
 public:
  explicit Estimate(const CollectiveBetweenHosts& collective)
      : collective_(collective),
        constants_(nccl_constants(collective.card)),
        topology_(hosts_of(collective, constants_)),
        network_(kNicEfficiency * collective.network_bytes_per_s) {}

  /// The faster protocol.
  TimeBetweenHosts of(NcclAlgorithm algorithm, double bytes) const {
    TimeBetweenHosts best;
    for (const NcclProtocol& protocol : kNcclProtocols) {
      TimeBetweenHosts other = with(protocol, algorithm, bytes);
      if (best.algorithm.empty() || other.total_ns() < best.total_ns()) best = std::move(other);
    }
    best.hosts = collective_.hosts;
    return best;
  }

  TimeBetweenHosts time() const {
    const auto bytes = static_cast<double>(collective_.bytes);
    if (collective_.operation != "all_reduce") return of(NcclAlgorithm::ring, bytes);
    const TimeBetweenHosts tree = of(NcclAlgorithm::tree, bytes);
    if (!has_choice()) return tree;
    const double from = size_of_changeover();
    if (bytes < from) return tree;
    TimeBetweenHosts ring = of(NcclAlgorithm::ring, bytes);
    if (from == 0) return ring;
    const double least_ns = of(NcclAlgorithm::tree, from).total_ns();
    const double most_ns = std::max(least_ns, tree.total_ns() * bytes / from);
    const double ns = std::clamp(ring.total_ns(), least_ns, most_ns);
    ring.changeover = ns != ring.total_ns();
    const double part = ns / ring.total_ns();
    ring.latency_ns *= part;
    ring.transfer_ns *= part;
    return ring;
  }

  /// On two hosts NCCL reckons with a tree as fast as their links inside, if there are any, and takes no ring.
  bool has_choice() const { return collective_.hosts > 2 || collective_.ranks == collective_.hosts; }

  /// Of no size up to these does NCCL take the ring, on as many hosts or more: its steps alone take longer.
  bool never_by_ring(double longest_ns) const {
    const double steps_us =
        2 * static_cast<double>(collective_.ranks - collective_.hosts) * kNcclProtocols[0].proxy_us +
        2 * static_cast<double>(collective_.hosts - 1) * kNcclProtocols[0].ring.network_us;
    return steps_us * 1e3 > longest_ns;
  }

  double nccl_reckons_ns(NcclAlgorithm algorithm, double bytes) const {
    return nccl_reckons_us(constants_, algorithm, topology_, bytes) * 1e3;
  }

 private:
  /// From which NCCL has the ring faster, however many more bytes there are. 0: at every size.
  double size_of_changeover() const {
    const auto by_ring = [&](double bytes) {
      return nccl_reckons_ns(NcclAlgorithm::ring, bytes) < nccl_reckons_ns(NcclAlgorithm::tree, bytes);
    };
    double size = kMostBytes;
    if (!by_ring(size)) return std::numeric_limits<double>::infinity();
    while (size > 1 && by_ring(size / 2)) size /= 2;
    if (size <= 1) return 0;
    double below = size / 2;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (below + size) / 2;
      (by_ring(middle) ? size : below) = middle;
    }
    return size;
  }

  TimeBetweenHosts with(const NcclProtocol& protocol, NcclAlgorithm algorithm, double bytes) const {
    const auto ranks = static_cast<double>(collective_.ranks), hosts = static_cast<double>(collective_.hosts);
    const bool tree = algorithm == NcclAlgorithm::tree;
    const Path path = tree ? tree_path(ranks, hosts) : ring_path(collective_.operation, ranks, hosts);
    TimeBetweenHosts time;
    time.algorithm = std::string(tree ? "tree, " : "ring, ") + protocol.name;
    time.latency_ns = latency_ns(protocol, algorithm, path);
    time.transfer_ns = transfer_ns(protocol, path, bytes, tree ? tree_correction(protocol, bytes) : 1);
    return time;
  }

  double latency_ns(const NcclProtocol& protocol, NcclAlgorithm algorithm, const Path& path) const {
    const bool tree = algorithm == NcclAlgorithm::tree;
    const NcclLatencies& of = tree ? protocol.tree : protocol.ring;
    const double inside_us = tree ? of.inside_us : std::max(of.inside_us, protocol.proxy_us);
    const double us =
        of.call_us + path.steps_inside * inside_us + path.steps_between * network_us(protocol, algorithm, topology_);
    const bool plateau = !tree && collective_.operation == "all_reduce" && protocol.flushes > 0;
    return us * (plateau ? constants_.plateau : 1) * 1e3;
  }

  double transfer_ns(const NcclProtocol& protocol, const Path& path, double bytes, double correction) const {
    const bool ll = protocol.wire_bytes > 1;
    const double channels = topology_.channels, link = collective_.link_bytes_per_s;
    const double gpu = std::min(ll ? constants_.ll / 2 : channels * constants_.tree_of_two / 2, link);
    const double proxies = ll_between_hosts(static_cast<double>(collective_.hosts)) * path.bus_share;
    const double network = ll ? std::min(network_ / protocol.wire_bytes, proxies) : network_;
    double slowest_s = std::max(path.network_volume * protocol.wire_bytes / network_, ll ? 1 / proxies : 0);
    slowest_s = std::max(slowest_s, path.gpus > 0 ? 1 / gpu : path.network_volume * protocol.wire_bytes / link);
    const double first_bytes = path.gpus > 0 ? std::min(bytes, channels * protocol.chunk_bytes) : 0;
    const double first_s = first_bytes * std::max(0.0, path.gpus / gpu + path.networks / network - slowest_s);
    // The links inside were measured with all that NCCL's correction stands for.
    return first_s * 1e9 + std::max(bytes * slowest_s / correction * 1e9,
                                    collective_.inside_ns * bytes / static_cast<double>(collective_.bytes));
  }

  const CollectiveBetweenHosts& collective_;
  const NcclConstants& constants_;
  NcclHosts topology_;
  double network_;
};

}  // namespace

double busiest_host_of_tree(double hosts) {
  return std::min(hosts / 2, 2.0);
}

TimeBetweenHosts nccl_between_hosts(const CollectiveBetweenHosts& collective) {
  const Estimate estimate(collective);
  const auto bytes = static_cast<double>(collective.bytes);
  TimeBetweenHosts time = estimate.time();
  if (collective.operation == "all_reduce") {
    const double longest_ns = estimate.nccl_reckons_ns(NcclAlgorithm::tree, bytes);
    CollectiveBetweenHosts fewer = collective;
    for (fewer.hosts = 2; fewer.hosts < collective.hosts; ++fewer.hosts) {
      fewer.ranks = fewer.hosts * (collective.ranks / collective.hosts);
      const Estimate smaller(fewer);
      if (fewer.hosts > 2 && smaller.never_by_ring(longest_ns)) break;  // from here trees, which grow with the hosts
      TimeBetweenHosts other = smaller.time();
      if (other.total_ns() > time.total_ns()) time = std::move(other);
    }
    time.tree_ns = estimate.of(NcclAlgorithm::tree, bytes).total_ns();
    if (estimate.has_choice()) time.ring_ns = estimate.of(NcclAlgorithm::ring, bytes).total_ns();
  }
  return time;
}

}  // namespace pdl
