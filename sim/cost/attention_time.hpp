// Time of attention of any size, from sizes that were measured.
//
//   attention_time(shapes, layer)       // shapes: curves over the sequences at once, of heads x kv_heads x head_size x
//                                       // tokens; 12 x 12 x 64 x 1024: 2, 8, 32 sequences
//
// Kernels of attention give a block of threads to each head of each sequence and some 128 tokens of it, so what counts
// is heads x sequences, the tokens and the head size. Grouped queries, several heads of which one of keys serves, are
// measured apart: in fp32 they have another kernel. Between measured ones straight lines in logarithms: over heads x
// sequences first, then over tokens. Beyond them: with more heads x sequences, and with another head size, in
// proportion to the FLOPs; with fewer along the line through the fewest two, as a card that is not full takes nearly as
// long; with more tokens as their square, with fewer in proportion.
//
// Source of the rules: FlashAttention-2, arXiv:2307.08691, section 3.2 (which blocks there are).
//
// Units: nanoseconds. Not here: masks other than the causal one.
#pragma once

#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

struct AttentionTime {
  double ns = 0;
  const Curve* nearest = nullptr;  // of the shape whose kernels and issue times are the likest
  std::int64_t nearest_size = 0;
  double octaves_beyond = 0;  // what was measured: log2, the largest of the three
};

/// At least one shape. All of them of one operation and data type.
AttentionTime attention_time(const std::vector<const MeasuredCurve*>& shapes, const MeasuredKey& layer);

}  // namespace pdl
