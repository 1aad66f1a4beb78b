// Time of one of NCCL's collectives over several hosts that nobody has measured: the algorithm that NCCL takes, as a
// pipeline of chunks through GPUs and networks.
//
//   nccl_between_hosts({.operation = "all_reduce", .ranks = 16, .hosts = 2, .bytes = 1 << 20,
//                       .network_bytes_per_s = 200e9, .link_bytes_per_s = 480e9})
//   // {.algorithm = "tree, Simple", .latency_ns = 92400, .transfer_ns = 73720}
//
// A tree of 2 hosts with 3 GPUs each, all-reduce: a chain in each host, the networks between the first GPUs
// (connect.cc):
//
//   reduce     2 -> 1 -> 0 ==network==> 0' <- 1' <- 2'       a chunk passes 3 + 1 GPUs and a network,
//   broadcast  2 <- 1 <- 0 <==network== 0' -> 1' -> 2'       and as many on its way back
//
//   time = latency of the hops + a chunk through all GPUs and networks that it passes + the other chunks, at the
//   slowest of them
//
// The double binary tree (trees.cc, ncclGetDtree) gives each of two trees half of the bytes. A host that has two
// children in one tree is a leaf in the other, so that its network carries 1/2 + 3/2 = 2 x bytes each way; of 2 hosts
// it carries 1, of 3 the busiest 3/2. (The mean over hosts is 2 (H-1)/H, which is the same for two; but the busiest
// decides, and tuning.cc reckons with 2 as well.) A ring over all n ranks carries 2 (n-1)/n x bytes, all_gather and
// reduce_scatter (n-1)/n, and steps, not chunks, are what it waits for. broadcast and reduce are a chain of all ranks,
// through which chunks pass; they carry the bytes once.
//
// Which algorithm: on two hosts with several GPUs each the tree (NCCL's author in nccl-tests #196). Else the tree up to
// the size from which NCCL's own reckoning (sim/cost/nccl_tuning.hpp) has the ring faster, whether or not it is; from
// there the ring. Where that is the slower one, the time grows from the tree's to the ring's within as many times the
// size, since that size depends on how NCCL finds the topology. Of each the faster protocol.
//
// Never less than with fewer bytes, or with fewer hosts of as many GPUs each. Each algorithm grows by itself; only
// where NCCL changes over from the slower to the faster one would a time fall.
//
// Sources: NCCL 2.28.9. src/graph/tuning.cc: latencies of a call, of a step inside a host and of one between hosts;
// bytes a second of a channel of a tree by generation of GPU (of 2 hosts, where the network limits least: a channel is
// not slower on more), of LL; both of its corrections: of a ring's latency (plateau, at every size: below it no ring by
// Simple is taken), and treeCorrectionFactor of the flow of a tree behind its first chunks. src/graph/connect.cc and
// trees.cc: the shape of trees. src/include/device.h, src/init.cc: sizes of chunks. A NIC gives NCCL 46 to 48 of 50
// GB/s (NVIDIA's maintainers in nccl-tests #290): 0.94 of its bandwidth.
//
// Left out: LL128 and trees through the NVSwitch (NVLS), which NCCL takes where it finds the NICs next to the GPUs and
// multicast in the driver: from 64 KiB to 64 MiB such clusters are faster than this says, by half and more
// (docs/design.md). CollNet (SHARP), PAT. NICs that are not spread evenly over the GPUs, switches that are not as fast
// as the hosts.
//
// Units: bytes of the whole buffer, nanoseconds, bytes a second.
#pragma once

#include <cstdint>
#include <string>

namespace pdl {

struct CollectiveBetweenHosts {
  std::string operation;  // all_reduce, all_gather, reduce_scatter, broadcast, reduce
  std::string card;       // as its driver names it: "NVIDIA H100 80GB HBM3"; one that is not known counts as a Hopper
  std::int64_t ranks = 1;
  std::int64_t hosts = 2;  // divides ranks
  std::int64_t bytes = 0;
  double network_bytes_per_s = 0;  // of a host, each way
  double network_latency_ns = 0;   // of one message, beyond the 2.7 to 14 us that NCCL's constants have for it
  double link_bytes_per_s = 0;     // of a GPU inside its host, each way, as measured
  double inside_ns = 0;            // what these bytes take the links inside a host, beside the network
};

struct TimeBetweenHosts {
  std::string algorithm;  // whose time it is: "ring, LL", "ring, Simple", "tree, LL", "tree, Simple"
  double latency_ns = 0;
  double transfer_ns = 0;
  std::int64_t hosts = 0;   // whose time it is: fewer than asked for where those take as long
  bool changeover = false;  // between the tree's time and the ring's, where NCCL goes over to the ring
  double tree_ns = 0;       // what each would take; 0: not considered
  double ring_ns = 0;

  double total_ns() const { return latency_ns + transfer_ns; }
};

/// `ranks` above 1, `hosts` above 1, both bandwidths above 0.
TimeBetweenHosts nccl_between_hosts(const CollectiveBetweenHosts& collective);

/// What the network of the busiest host carries each way in a tree's all-reduce, in buffers. `hosts` above 1.
double busiest_host_of_tree(double hosts);

}  // namespace pdl
