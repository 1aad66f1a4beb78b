// Time of a layer's operation from the model of its products: what stands in between where no probe measured that size.
//
//   LayerModel model(*profile.products, bytes_per_ns);
//   ModelledOperation modelled = *model.at(key);      // key: as of LayerTimes
//   modelled.ns                                       // the products, and what moves memory beside them
//
// It need not be right, only wrong by about the same share at similar sizes: LayerTimes takes the measured time over
// the modelled one from the sizes that were measured. So what is not in it (two streams in one backward, caches) is in
// that share.
//
// Beside the products: bytes of ReLU and its backward, the sum over rows of the bias's gradient, autocast's copies,
// gradients that are added to; at the memory's speed, and 3 us a kernel. LayerTimes takes measured over modelled of
// these by itself: where memory decides, as of few rows under AMP, one share for both would be that of the other. Of
// probed layers that were held back predictions are off by 1.6 % so in bf16, forward and backward of more than 150 us,
// and by 5.6 with one speed for all that a layer moves (H200, 2026-11-30).
// Units: nanoseconds. Not here: kinds of layers without products.
#pragma once

#include <optional>
#include <vector>

#include "sim/cost/curve.hpp"
#include "sim/cost/measured_key.hpp"
#include "sim/cost/product_model.hpp"

namespace pdl {

struct ModelledOperation {
  double ns = 0;
  double beside_ns = 0;          // of it what is no product
  std::vector<Kernel> products;  // in the order of execution
  bool covered = true;           // the library was asked for sizes like these
  double octaves_beyond = 0;     // the largest that it was asked for
};

/// Which products a layer's operation is made of, in the order in which they run: "backward_input", "backward_weight".
std::vector<std::string> products_of(const MeasuredKey& layer);

class LayerModel {
 public:
  /// `model` must outlive this.
  LayerModel(const ProductModel& model, double bytes_per_ns) : products_(model), bytes_per_ns_(bytes_per_ns) {}

  /// Nothing if the layer is not made of products, or the library was not asked for them. Several threads may ask.
  std::optional<ModelledOperation> at(const MeasuredKey& layer) const;

  /// Of widths that kernels of tensor cores cannot load 16 bytes at once of: in proportion to what their tiles
  /// multiply, at some rate. The library has few kernels for them, CUTLASS's of older cards with tiles of 128 x 128 to
  /// 128 x 256, all about as fast: 768 and 1600 x 50257 had 93 to 96 TFLOP/s (forward), 131 to 148 (backward) at 4,096
  /// and 16,384 rows in bf16, 129 to 136 and 112 to 130 in TF32 (H200, 2026-11-30), whatever the model of aligned ones
  /// says of waves and depth. A kernel with other tiles, or a fall of these rates at few rows, would refute it.
  std::optional<ModelledOperation> of_odd_widths(const MeasuredKey& layer) const;

 private:
  double beside_ns(const MeasuredKey& layer) const;

  ProductTimes products_;
  double bytes_per_ns_;
};

}  // namespace pdl
