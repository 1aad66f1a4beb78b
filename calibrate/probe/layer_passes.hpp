// Which shapes of layers, losses, optimizers and buckets are probed, in passes: what is measured in one go.
//
//   for (const LayerPass& pass : layer_passes(options, plan, memory_bytes)) ...
//
//     widths 1024, 2048; rows 8, 16; fp32, amp-bf16; a plan of layers 1536 x 1536
//       compute fp32 1024             1024 x 1024: 8, 16 rows, and their losses
//       compute fp32 2048
//       compute fp32 between widths   some linear_relu between 512 and 3072, some of them not square
//       sustained fp32                1024 x 1024, 2048 x 2048, the most rows: on and on, to find the power limit
//       compute amp-bf16 ...          the same, sustained too
//       compute fp32 row-wise         layer_norm, gelu, of few widths and rows
//       compute optimizers            of 1 and 4 layers of each width, of 8 and 20 of the largest
//       compute buckets
//       plan: fp32                    what the plan needs and the passes before have not
//       plan: optimizers
//
// Units: seconds; counts of samples (rows) and numbers. Not here: how they are measured (layer_probe.hpp); no Torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/probe/probe.hpp"
#include "calibrate/probe/probe_shapes.hpp"
#include "sim/model/dtype.hpp"

namespace pdl {

/// With LibTorch set up for one data type.
struct LayerPass {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::vector<LayerShape> layers;
  std::vector<LossShape> losses;
  std::vector<OptimizerShape> optimizers;
  std::vector<std::int64_t> buckets;  // numbers
  double seconds = 0.06;              // of an operation of several layers; half of it for one of one layer
  double sustained_seconds = 0;       // kept busy before, until the power limit has its effect: samples of that probe
  bool rested = false;                // tensor cores: the card rests as long before, so that it has its full clock
  int least_repetitions = 6;
  int launches_a_layer = 8;  // at most
  double share = 0;          // seconds, about
};

/// What is probed of a plan, in one data type.
struct PlanOfProbe {
  Dtype dtype = Dtype::fp32;
  PlanShapes shapes;
};

bool is_row_wise(const Layer& layer);

/// Of all operations of a layer, about, as they were on 2 x H200 (2026-11-29): series of a given length, and what the
/// least repetitions of large layers take beyond it.
double seconds_of(const LayerPass& pass, const LayerShape& shape);

/// Lists and numbers of `options` are filled in. With options.beside those of the plan or of transformers alone. No
/// pass is empty. What one measures, no later one measures again for the plan. Says by options.note what
/// `memory_bytes`, of a GPU, are too few for.
std::vector<LayerPass> layer_passes(const ProbeOptions& options, const PlanOfProbe* plan, std::int64_t memory_bytes);

}  // namespace pdl
