// Time of a layer's operation from the model of its products: what stands in between where no probe measured that size.
//
//   LayerModel model(*profile.products, best_bytes_per_ns);
//   ModelledOperation modelled = *model.at(key);      // key: as of LayerTimes
//   modelled.ns                                       // the products, and what moves memory beside them
//
// It need not be right, only wrong by about the same share at similar sizes: LayerTimes takes the measured time over
// the modelled one from the sizes that were measured. So what is not in it (two streams in one backward, caches) is in
// that share.
//
// Beside the products: bytes of ReLU and its backward, the sum over rows of the bias's gradient, autocast's copies,
// gradients that are added to; at the best rate seen in the profile, and 2 us a kernel.
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
  LayerModel(const ProductModel& model, double best_bytes_per_ns)
      : products_(model), best_bytes_per_ns_(best_bytes_per_ns) {}

  /// Nothing if the layer is not made of products, or the library was not asked for them. Several threads may ask.
  std::optional<ModelledOperation> at(const MeasuredKey& layer) const;

 private:
  ProductTimes products_;
  double best_bytes_per_ns_;
};

}  // namespace pdl
