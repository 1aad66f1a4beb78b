// From measured matrix products to the model of their kernels (sim/cost/product_model.hpp).
//
//   ProductModel model = fit_products(samples.products, 132, "NVIDIA H200");
//
// Kernels of one name share their parameters, whatever the number of splits, but for those that add to their result.
// Each set of parameters is the least sum of squared relative errors, none below zero, with products that are far off
// counting less; where there are few products it stays near what the other kernels of its family take for a tile of
// its area. Which direction of the grid a tile's first number belongs to is not in a name: the one that fits better.
//
// A pipeline's product runs by the fastest of several ways: of a size that was not timed, by the one whose kernel the
// model finds fastest.
// On tensor cores the clock falls with the power drawn: what all kernels of a data type have in common over the size of
// a product is its clock curve, found in turns with their parameters.
// Not here: whole layers; how well it does where nothing was measured (calibrate/fit/layer_errors.hpp).
#pragma once

#include <string>

#include "calibrate/fit/product_samples.hpp"
#include "sim/cost/product_model.hpp"

namespace pdl {

/// The same samples in any order give the same model.
ProductModel fit_products(const ProductSamples& products, std::int64_t multiprocessors, const std::string& card);

/// Without kernels that no choice names: what a profile needs.
void drop_unchosen_kernels(ProductModel& model);

/// x >= 0 with the least |A x - y|^2 + sum_i (weight_i (x_i - prior_i))^2. Rows of A: `terms`.
KernelTerms least_squares_from(const std::vector<KernelTerms>& terms, const std::vector<double>& y,
                               const KernelTerms& prior, const KernelTerms& weight);

/// Which direction of the result the first number of a tile and of a cluster belongs to.
struct Turned {
  bool tile = false;
  bool cluster = false;
};

/// What the name of a kernel says of its tiles, and the capture of the rest. Tiles of names that do not say: 32 x 32.
KernelTiling tiling_of(const SeenKernel& kernel, Turned turned);

}  // namespace pdl
