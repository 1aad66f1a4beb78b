#include "sim/cost/nccl_tuning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdl {
namespace {

constexpr double kBytesOfPlateau = 64;  // a channel and rank

double gpus_a_host(const NcclHosts& of) {
  return static_cast<double>(of.ranks) / static_cast<double>(of.hosts);
}

double ring_us(const NcclConstants& constants, const NcclProtocol& protocol, const NcclHosts& of, double bytes) {
  const auto ranks = static_cast<double>(of.ranks), hosts = static_cast<double>(of.hosts);
  double bandwidth = std::min(of.network_bytes_per_s, of.link_bytes_per_s);
  if (protocol.wire_bytes > 1) bandwidth = std::min(bandwidth / 2, ll_between_hosts(hosts));
  bandwidth *= ranks / (2 * (ranks - 1));
  double latency_us = protocol.ring.call_us +
                      2 * (ranks - hosts) * std::max(protocol.ring.inside_us, protocol.proxy_us) +
                      2 * (hosts - 1) * network_us(protocol, NcclAlgorithm::ring, of);
  if (protocol.flushes > 0 && bytes >= kBytesOfPlateau * of.channels * ranks) latency_us *= constants.plateau;
  return latency_us + bytes / bandwidth * 1e6;
}

double tree_us(const NcclConstants& constants, const NcclProtocol& protocol, const NcclHosts& of, double bytes) {
  const auto hosts = static_cast<double>(of.hosts);
  const double channel = of.hosts <= 2 ? constants.tree_of_two : constants.tree_of_more;
  double bandwidth = std::min(.92 * std::min(of.network_bytes_per_s, of.link_bytes_per_s), of.channels / 2 * channel);
  if (protocol.wire_bytes > 1) bandwidth = std::min(bandwidth / 3.8, ll_between_hosts(hosts));
  if (of.ranks == of.hosts) bandwidth *= .85;
  bandwidth *= .5 * tree_correction(protocol, bytes);
  const double latency_us =
      protocol.tree.call_us + 2 * ((gpus_a_host(of) - 1) * protocol.tree.inside_us +
                                   std::floor(std::log2(hosts)) * network_us(protocol, NcclAlgorithm::tree, of));
  return latency_us + bytes / bandwidth * 1e6;
}

}  // namespace

const NcclConstants& nccl_constants(const std::string& card) {
  static const std::array<NcclConstants, 4> known = {
      {{{"H100", "H200", "H800", "H20", "GH200"}, 41.4e9, 36.0e9, 141.0e9, 1.4},
       {{"B100", "B200", "B300", "GB200", "GB300"}, 42.8e9, 24.0e9, 282.0e9, 1.4},
       {{"A100", "A800", "A40", "A30", "A10"}, 23.6e9, 17.8e9, 87.7e9, 1.4},
       {{"V100"}, 18.5e9, 10.0e9, 39.0e9, 1.9}}};
  for (const NcclConstants& constants : known) {
    for (const char* name : constants.cards) {
      if (card.find(name) != std::string::npos) return constants;
    }
  }
  return known.front();
}

double ll_between_hosts(double hosts) {
  return hosts <= 2 ? 39.0e9 : 20.4e9;
}

double tree_correction(const NcclProtocol& protocol, double bytes) {
  const auto& table = protocol.tree_correction;
  const double place = std::log2(std::max(bytes, 64.0) / 64);
  const auto below = static_cast<std::size_t>(place);
  const auto factor = [&](std::size_t i) { return i < table.size() ? table[i] : 1.0; };
  return factor(below) + (place - static_cast<double>(below)) * (factor(below + 1) - factor(below));
}

double network_us(const NcclProtocol& protocol, NcclAlgorithm algorithm, const NcclHosts& of) {
  const bool of_tree = algorithm == NcclAlgorithm::tree || of.ranks == of.hosts;
  return (of_tree ? protocol.tree : protocol.ring).network_us + of.network_latency_us * (1 + protocol.flushes);
}

double nccl_reckons_us(const NcclConstants& constants, NcclAlgorithm algorithm, const NcclHosts& hosts, double bytes) {
  double least_us = std::numeric_limits<double>::infinity();
  for (const NcclProtocol& protocol : kNcclProtocols) {
    least_us =
        std::min(least_us, (algorithm == NcclAlgorithm::ring ? ring_us : tree_us)(constants, protocol, hosts, bytes));
  }
  return least_us;
}

}  // namespace pdl
