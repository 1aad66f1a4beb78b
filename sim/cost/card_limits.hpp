// What a card cannot exceed: measurements that do were not synchronised, or are labelled wrongly; the FLOPs of a step
// are a share of it (sim/run/metrics.hpp).
//
//   limits_of({.card = "NVIDIA H100 80GB HBM3"})->flops_per_s.at(Dtype::fp32)   // 66.9e12
//   dense_peak("NVIDIA H100 80GB HBM3", Dtype::amp_bf16)                        // 989.4e12
//
// Sources, all dense and at boost clock:
//   H100, H200, GH200   NVIDIA H100 Tensor Core GPU Architecture (whitepaper), table 2, SXM5; memory and NVLink: data
//                       sheets of H100 SXM and H200 SXM. PCIe and NVL cards are slower: the bound holds for them too.
//   A100                NVIDIA A100 Tensor Core GPU data sheet, SXM
//   V100                NVIDIA V100 Tensor Core GPU data sheet, SXM2
//   T4                  NVIDIA T4 Tensor Core GPU data sheet
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/cost/environment.hpp"
#include "sim/model/dtype.hpp"

namespace pdl {

struct CardLimits {
  std::string card;                     // as named in messages
  std::map<Dtype, double> flops_per_s;  // absent: not known
  double memory_bytes_per_s = 0;        // 0: not known
  double link_bytes_per_s = 0;          // to one other card, one direction; 0: not known
  bool known = true;                    // of this card; false: of no card at all
};

/// By the name of the card; for a card that is not in the table, what the environment says of its peak; for a GPU of
/// which neither is known, what no card reaches. Nothing for a CPU without a peak.
std::optional<CardLimits> limits_of(const Environment& environment);

/// FLOP/s of dense products at boost clock, of that card itself; of amp-bf16 and amp-fp16 those of bf16 and fp16.
/// Nothing where it is not known: cards that are not in the table, PCIe and NVL cards, which are slower than the SXM
/// card of their name, a part of a card (MIG), data types that it has no tensor cores for.
std::optional<double> dense_peak(const std::string& card, Dtype dtype);

}  // namespace pdl
