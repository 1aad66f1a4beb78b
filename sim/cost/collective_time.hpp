// Time of a collective for any number of GPUs and hosts, from the groups that a profile has.
//
//   CollectiveTimes times(profile, notices);
//   times.at({.operation = "all_reduce", .transport = "nccl", .ranks = 8, .bytes = 64 << 20})
//
// Groups that were measured: their curve over bytes, as it is. Between two of them: a straight line in the logarithms
// of ranks and time. Others on one host: the nearest measured one, its latency L (its smallest time) and the rest V of
// its time scaled by the counts of the algorithms, L from ring to ring or from tree to tree, V from the ring's (which
// large buffers take), whichever is faster (NCCL chooses between them in the same way); fewer ranks: L as a tree, V as
// a ring. So of the groups that were not measured a larger one never takes less time, nor less than a smaller one that
// was.
//
//                              wire bytes of a rank, ring   steps, ring   wire bytes, tree   steps, tree
//   all_reduce                 2 (n-1)/n x bytes            2 (n-1)       2 x bytes          2 log2 n
//   broadcast, reduce          bytes                        n-1           bytes              log2 n
//   all_gather, reduce_scatter (n-1)/n x bytes              n-1           -                  -
//
// (nccl-tests, doc/PERFORMANCE.md; NCCL 2.28's double binary trees.)
//
// Several hosts that were measured (nccl-tests over them): their curve, without another network. Other numbers of hosts
// or ranks: the nearest measured cluster, latency by the steps of a tree (all_gather, reduce_scatter: of a ring),
// volume by what the busiest host's network carries for all_reduce in a tree of hosts (1 x the bytes on 2 hosts, 3/2 on
// 3, 2 on more), else as the ring: as if the network limited what was measured. Where the links inside a host do, more
// hosts take no more volume: the warning has both. Never less than a smaller cluster that was measured. One host of
// which nothing was measured: the same, the network in it. Several hosts that were not: with NCCL
// sim/cost/nccl_between_hosts.hpp, with Gloo a ring over all ranks; the links inside and the network go on at the same
// time, and the volumes take the longer of the two. Several hosts are never faster than one. Every such time is marked
// as extrapolated.
//
// Thread blocks of a group that has none (imported from nccl-tests) are those of the nearest group that has.
//
// Units: bytes are those of the whole buffer, nanoseconds.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

struct TimeBetweenHosts;

struct Collective {
  std::string operation;
  std::string transport;
  std::int64_t ranks = 1;
  std::int64_t bytes = 0;
  std::int64_t hosts = 1;  // divides ranks
  double network_bytes_per_s = 0;
  double network_latency_ns = 0;  // of a message, beyond what its algorithm has for it
  bool network_given = false;     // by the user
};

struct CollectiveTime {
  double device_ns = 0;
  std::int64_t blocks = 0;  // multiprocessors that it holds; 0: not known
  double issue_ns = 0;      // by one host for all ranks, of each; of the nearest group that was measured
};

class CollectiveTimes {
 public:
  /// Both must outlive this.
  CollectiveTimes(const CostProfile& profile, Notices& notices) : profile_(profile), notices_(notices) {}

  /// None for one rank. Throws InputError naming the profile if it has no such operation.
  CollectiveTime at(const Collective& collective);

 private:
  struct Parts {
    double latency_ns = 0;
    double volume_ns = 0;
    std::int64_t blocks = 0;
    double issue_ns = 0;

    double total_ns() const { return latency_ns + volume_ns; }
    CollectiveTime time() const { return {total_ns(), blocks, issue_ns}; }
    Parts at_least(double ns) const { return total_ns() < ns ? scaled_to(ns) : *this; }
    Parts scaled_to(double ns) const {
      return {latency_ns * ns / total_ns(), volume_ns * ns / total_ns(), blocks, issue_ns};
    }
  };

  /// The measured groups next to one that was not; 0: none.
  struct Neighbours {
    std::int64_t below = 0, above = 0;
    double least_ns = 0;  // what every smaller group takes, at most
    double above_ns = 0;
  };

  /// On one host. Null if the profile has none.
  const MeasuredCurve* nearest_group(const Collective& collective, bool with_blocks) const;
  std::int64_t blocks_of(const Collective& collective);
  /// As if all ranks were on one host.
  Parts inside_hosts(const Collective& collective);
  static Parts of_other_group(const Parts& measured, const Collective& collective, std::int64_t measured_ranks);
  Parts parts_of(const MeasuredCurve& measured, std::int64_t bytes) const;
  Neighbours neighbours(const Collective& collective) const;
  /// Over several hosts of which none was measured. `inside`: as if all ranks were on one.
  Parts by_nccl(const Collective& collective, const Parts& inside);
  void say_choice(const Collective& collective, const TimeBetweenHosts& time, const Parts& inside);
  Parts by_ring(const Collective& collective, const Parts& inside);
  void say_network(const Collective& collective, const std::string& how, const std::string& how_well);
  /// Over several hosts, of which some were measured. Null if the profile has none.
  const MeasuredCurve* nearest_cluster(const Collective& collective) const;
  CollectiveTime of_cluster(const Collective& collective, const MeasuredCurve& measured);
  void say_bounds(const Collective& collective, const Parts& measured, const Parts& most);
  static Parts of_other_cluster(const Parts& measured, const Collective& collective, const MeasuredKey& key);
  /// What every measured group of no more hosts and ranks takes, at most.
  double least_of_smaller_clusters(const Collective& collective);

  const CostProfile& profile_;
  Notices& notices_;
};

}  // namespace pdl
