// NCCL's own reckoning of its all-reduce over several hosts, by which it chooses between ring and tree, small: the
// constants of src/graph/tuning.cc (NCCL 2.28.9) and the formulas of ncclTopoTuneModel and ncclTopoGetAlgoTime.
//
//   nccl_reckons_us(nccl_constants("NVIDIA H100"), NcclAlgorithm::ring, {.ranks = 24, .hosts = 3, .channels = 16,
//                   .network_bytes_per_s = 400e9, .link_bytes_per_s = 480e9}, 1 << 30)   // 5435
//
//   time = latency + bytes / bandwidth, the faster of LL and Simple
//
//   ring   bandwidth  network x n / (2 (n-1)); LL half of the network, at most llMaxBws
//          latency    of a call + 2 (n - H) steps inside + 2 (H - 1) steps between hosts; Simple x 1.4 (before Ampere
//                     1.9) from 64 bytes a channel and rank: ncclTopoGetAlgoTime's "plateau effect of ring"
//   tree   bandwidth  half of: .92 x network, perChMaxTreeBws a channel at most, LL / 3.8; x .85 with one GPU a host
//                     (a plain tree); x treeCorrectionFactor. Not of two hosts with several GPUs each, where NCCL
//                     reckons with the links inside
//          latency    of a call + 2 x (n/H - 1 steps inside + log2 H, rounded down, between hosts)
//
// It is a rule of choice, not a prediction: sim/cost/nccl_between_hosts.hpp predicts what was chosen.
//
// Left out: LL128, NVLS trees, CollNet, PAT; the steps in which search.cc tries bandwidths (networks are taken as fast
// as they are); proxies on AMD's CPUs (llMaxBws, getNetOverhead: Intel's, which NCCL also takes for those that it does
// not know). treeCorrectionFactor is a table by powers of two; between them this goes in a straight line in log2 of the
// bytes, so that no size is a step.
//
// Units: bytes of the whole buffer, microseconds as in tuning.cc, bytes a second.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pdl {

enum class NcclAlgorithm { ring, tree };

/// ncclTunerConstantsDefaults: baseLatencies, hwLatencies of NVLINK and of NET.
struct NcclLatencies {
  double call_us, inside_us, network_us;
};

struct NcclProtocol {
  const char* name;
  NcclLatencies ring, tree;
  double proxy_us;                         // of a ring's step: getNetOverhead, three times with Simple
  double flushes;                          // messages between hosts that pay the network's latency once more
  double wire_bytes;                       // of a byte of data: LL sends a flag of 4 bytes with every 4
  double chunk_bytes;                      // of a channel, at most
  std::array<double, 23> tree_correction;  // treeCorrectionFactor: of 64 bytes, 128 .. 256 MiB; 1 from 512 MiB
};

/// LL: 8 lines of 16 bytes of 512 threads, half of them data (device.h). Simple: 4 MiB in 8 steps (init.cc).
inline constexpr std::array kNcclProtocols = {
    NcclProtocol{
        "LL", {6.6, 0.6, 2.7}, {6.8, 0.6, 5.0}, 1.0, 0, 2, 32 * 1024.0, {1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                                                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1}},
    NcclProtocol{"Simple", {8.4, 3.4, 14.0}, {8.4, 4.0, 14.0}, 3.0, 1, 1, 512 * 1024.0, {.9, .9, .9, .9, .9, .9, .9, .8,
                                                                                         .7, .6, .6, .5, .5, .5, .5, .6,
                                                                                         .7, .8, .7, .7, .8, .9, .9}},
};

/// What depends on the generation of GPUs. Bus bandwidths, bytes a second.
struct NcclConstants {
  std::vector<const char*> cards;
  double tree_of_two, tree_of_more;  // perChMaxTreeBws, a channel of the graph: on 2 hosts, on more
  double ll;                         // llMaxBws on one host
  double plateau;                    // of a ring's latency with Simple
};

/// By the name that the driver gives the GPU: "NVIDIA H100 80GB HBM3". One that is not known counts as a Hopper.
const NcclConstants& nccl_constants(const std::string& card);

/// Hosts joined by a network, as ring and tree find them.
struct NcclHosts {
  std::int64_t ranks = 2;
  std::int64_t hosts = 2;          // divides ranks
  double channels = 16;            // of the communicator; its graphs have half as many (connect.cc)
  double network_bytes_per_s = 0;  // of a host, each way, nominal
  double link_bytes_per_s = 0;     // of a GPU inside its host
  double network_latency_us = 0;   // latencyInter: what the network adds to a message; 0 in NCCL's plugins (net_ib)
};

/// llMaxBws between hosts.
double ll_between_hosts(double hosts);

/// treeCorrectionFactor.
double tree_correction(const NcclProtocol& protocol, double bytes);

/// Of a ring's step with one GPU a host "latencies are fully exposed, use the Tree network latency" (tuning.cc).
double network_us(const NcclProtocol& protocol, NcclAlgorithm algorithm, const NcclHosts& hosts);

/// All-reduce.
double nccl_reckons_us(const NcclConstants& constants, NcclAlgorithm algorithm, const NcclHosts& hosts, double bytes);

}  // namespace pdl
