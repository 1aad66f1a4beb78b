// What layers, losses and optimizers are probed, as plain values: which shapes there are between the widths of the
// grid, and which ones a plan needs.
//
//   PlanShapes shapes = shapes_of_plan(make_plan(spec));
//
//     4 layers 16 x 16, gpipe on 2 GPUs, batch 8 in 2 micro-batches, fp32, sgd
//       layers       16 x 16, 4 rows, fp32, of the pipeline            every operation of both implementations follows
//       losses       4 x 16 numbers, fp32, of the pipeline
//       optimizers   sgd of 2 layers 16 x 16, of the pipeline          of each stage that differs
//
//   remove_measured(shapes, samples);     // leaves what no sample has
//
// Units: counts of samples (rows) and of numbers. Not here: how they are measured (layer_probe.hpp); no Torch.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit/samples.hpp"
#include "sim/model/dtype.hpp"
#include "sim/model/layer.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

/// A layer and how many samples go through it at once. `dtype`: of its key, fp32 for row-wise kinds where what comes is
/// fp32.
struct LayerShape {
  Layer layer;
  std::int64_t rows = 0;
  Dtype dtype = Dtype::fp32;
  bool pipeline = false;  // measured as a layer of PipelineStage
  bool autograd = false;  // measured as a LibTorch module
  bool operator==(const LayerShape&) const = default;
};

/// The loss of rows x width numbers; of logits rows are tokens, and the width is the vocabulary.
struct LossShape {
  std::string implementation;
  Dtype dtype = Dtype::fp32;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Loss loss = Loss::mse;
  bool operator==(const LossShape&) const = default;
};

/// An update of all parameters of these layers at once.
struct OptimizerShape {
  std::string implementation;
  std::string optimizer;  // sgd, adam, unscale
  std::vector<Layer> layers;
  bool operator==(const OptimizerShape&) const = default;
};

struct PlanShapes {
  std::vector<LayerShape> layers;
  std::vector<LossShape> losses;
  std::vector<OptimizerShape> optimizers;
  bool empty() const { return layers.empty() && losses.empty() && optimizers.empty(); }
};

/// Of all its tasks that compute, each once, in the order of the plan.
PlanShapes shapes_of_plan(const Plan& plan);

/// Removes shapes of which `samples` has a forward, a loss, an update. With `pipeline` and `autograd` of a layer one by
/// one.
void remove_measured(PlanShapes& shapes, const std::vector<Sample>& samples);

/// Layers of tensor cores that are measured now have the full clock of the GPU. Samples that have such layers, and no
/// `sustained` ones, are of a calibration in which the power limit lowered it: both together would be wrong. Throws
/// InputError naming `place`.
void check_same_clock(const PlanShapes& shapes, const std::vector<Sample>& samples, const std::string& place);

std::int64_t parameters(const OptimizerShape& shape);

/// Layers of linear_relu between the widths of a grid: as many as `count`, always the same ones for the same bounds and
/// `stream`. Widths are drawn evenly on a logarithmic scale from half the least width to one and a half times the
/// largest, multiples of 64 (of 8 where half the least width is below 512); two of three layers are square; rows evenly
/// on that scale between the bounds; 2 rows in out is at most `most_flops`, by fewer rows. Which programs have them is
/// left open.
struct ShapeBounds {
  std::int64_t least_width = 0, largest_width = 0;
  std::int64_t least_rows = 0, largest_rows = 0;
  double most_flops = 4e11;
};
std::vector<LayerShape> random_layer_shapes(std::int64_t count, const ShapeBounds& bounds, Dtype dtype,
                                            std::uint64_t stream);

}  // namespace pdl
