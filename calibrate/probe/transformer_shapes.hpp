// What is probed so that transformers of any size can be priced: products of the widths that they have, attention,
// norms and what moves their activations, losses over vocabularies. Between these sizes see sim/cost.
//
//   TransformerShapes shapes = transformer_shapes(Dtype::amp_bf16, /*cuda=*/true, memory_bytes);
//
// Units: counts of rows and numbers. Not here: how they are measured; no Torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/probe/probe_shapes.hpp"

namespace pdl {

/// Of one data type: none of amp-fp16, whose kernels take as long as those of amp-bf16 (sim/cost/layer_families.hpp has
/// these in their place). Row-wise kinds of fp32 are in that of fp32; TF32 is no type of theirs. What would take more
/// than a sixteenth of a GPU's memory is left out.
struct TransformerShapes {
  std::vector<LayerShape> products;   // of tensor cores, where the type is theirs
  std::vector<LayerShape> attention;  // which the power limit slows as well
  std::vector<LayerShape> row_wise;
  std::vector<LossShape> losses;
};
TransformerShapes transformer_shapes(Dtype dtype, bool cuda, std::int64_t memory_bytes);

/// Of an optimizer of transformers, by both implementations: blocks, whose tensors are of many sizes. Tensors that are
/// all of the same power of two stand in the memory such that their updates take a tenth longer (H200, 2026-11-30).
std::vector<OptimizerShape> block_optimizers(const std::string& optimizer, bool cuda);

}  // namespace pdl
