// Time of one of NCCL's collectives over several hosts that nobody has measured: of every algorithm and protocol below,
// as a pipeline of chunks through GPUs and networks. The fastest is taken, as NCCL does.
//
//   fastest_between_hosts({.operation = "all_reduce", .ranks = 16, .hosts = 2, .bytes = 1 << 20,
//                          .network_bytes_per_s = 200e9, .network_latency_ns = 5000, .link_bytes_per_s = 480e9})
//   // {.algorithm = "tree, Simple", .latency_ns = 112400, .transfer_ns = 68000}
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
// A second tree has the hosts in another order, so that each host's network carries 2 (H-1)/H x bytes each way. A ring
// over all n ranks carries 2 (n-1)/n x bytes, all_gather and reduce_scatter (n-1)/n, and steps, not chunks, are what it
// waits for. broadcast and reduce are a chain of all ranks, through which chunks pass; they carry the bytes once.
//
// On two hosts NCCL takes the tree (tuning.cc reckons its bandwidth by the links inside; its author in nccl-tests
// #196), on more the faster of both. The faster protocol of each.
//
// Sources: NCCL 2.28.9. src/graph/tuning.cc: latencies of a call, of a step inside a host and of one between hosts;
// bytes a second of a channel of a tree by generation of GPU, of LL; the plateau of rings (x 1.4); what a message costs
// its proxy. src/graph/connect.cc and trees.cc: the shape of trees. src/include/device.h, src/init.cc: sizes of chunks.
// A NIC gives NCCL 46 to 48 of 50 GB/s (NVIDIA's maintainers in nccl-tests #290): 0.94 of its bandwidth.
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
  double network_latency_ns = 0;   // beyond what NCCL's own latencies of a step between hosts hold, of one message
  double link_bytes_per_s = 0;     // of a GPU inside its host, each way, as measured
  double inside_ns = 0;            // what these bytes take the links inside a host, beside the network
};

struct TimeBetweenHosts {
  std::string algorithm;  // "ring, LL", "ring, Simple", "tree, LL", "tree, Simple"
  double latency_ns = 0;
  double transfer_ns = 0;

  double total_ns() const { return latency_ns + transfer_ns; }
};

/// Never less than the same ranks on fewer hosts. `ranks` above 1, `hosts` above 1, both bandwidths above 0.
TimeBetweenHosts fastest_between_hosts(const CollectiveBetweenHosts& collective);

}  // namespace pdl
