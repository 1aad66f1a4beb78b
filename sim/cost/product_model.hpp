// Time of a matrix product of any size: which kernel the library picks for it, and how long that kernel takes.
//
//   const ProductModel& model = *profile.products;
//   const ProductTimes times(model);
//   ProductTime time = *times.at({"autograd", "forward", Dtype::fp32}, {1100, 3584, 3584});
//   time.ns, time.blocks       // 700.1e3, 504 thread blocks
//
// A product multiplies rows x in by in x out (forward), or makes one of its gradients. Its result is cut into tiles,
// one a thread block; a multiprocessor holds `resident` blocks at once. So time goes up in waves:
//
//   tiles      |####|####|####|##  |      504 tiles on 132 multiprocessors: three full waves and a part of a fourth,
//   wave         1    2    3    4         which takes as long as a whole one
//
//   time = launch + operands, result and parts of sums at the memory's speed
//        + waves x (depth x time a step of depth + start and end of a block)
//
// These times are the kernel's own, fitted from products of many sizes (calibrate/fit/product_fit.hpp). Which kernel:
// the library was asked for a lattice of sizes (calibrate/probe/product_probe.hpp). Of a width beside it the fastest of
// the nearest shapes' kernels is taken; of rows between two, the kernel of the row above, or where the library has
// another at every row the fastest of those around.
//
// Units: microseconds in the parameters, nanoseconds in results. Not here: what runs beside a product, whole layers
// (sim/cost/layer_model.hpp), power: clocks are those of the probes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/container/static_vector.hpp>

#include "sim/model/dtype.hpp"

namespace pdl {

/// A layer's product: what it is made from.
struct ProductSize {
  std::int64_t rows = 0, in = 0, out = 0;
  auto operator<=>(const ProductSize&) const = default;
};

/// Whose product. `implementation` "autograd": LibTorch's own calls; "pipeline": the fastest of several ways
/// (runtime/model/matrix_products.hpp). `operation`: forward (out = x W^T + b), backward_input (dx = dy W),
/// backward_weight (dW = dy^T x).
struct ProductKind {
  std::string implementation;
  std::string operation;
  Dtype dtype = Dtype::fp32;
  auto operator<=>(const ProductKind&) const = default;
};

/// What a kernel is, as far as it can be known without running it.
struct KernelTiling {
  std::string name;
  std::int64_t tile_m = 0, tile_n = 0;        // numbers of the result a block makes at once
  std::int64_t cluster_m = 1, cluster_n = 1;  // blocks that are placed together: tiles are padded to whole clusters
  std::int64_t resident = 1;                  // blocks a multiprocessor holds at once
  std::int64_t grid_limit = 0;                // blocks that work through all tiles in turn; 0: a block a tile
  bool shares_tiles = false;                  // such blocks share the last tiles evenly (stream-K)
  bool splits_depth = false;                  // several blocks a tile, each a part of the depth
  bool adds_parts = false;                    // and a second kernel adds these parts
  bool accumulates = false;                   // adds to what is in the result, which it reads first
  bool swizzles = false;  // tiles are launched in groups of up to 8 in the direction of tile_m (CUTLASS)
  auto operator<=>(const KernelTiling&) const = default;
};

/// The result is m x n, each of its numbers a sum of k products, m fastest in memory (as cuBLAS has it).
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;  // adds to what is there: a pipeline's weight gradients
};
ProductShape product_shape(const ProductKind& kind, const ProductSize& size);

/// Of both operands and the result, each once.
double product_bytes(const ProductShape& shape, std::int64_t number_bytes);

/// Thread blocks of the launch.
std::int64_t launched_blocks(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape);

/// What the parameters of a kernel are multiplied with, in this order; depth: in thousands, times resident blocks.
///   0  1: a launch
///   1  operands and result, 4 million bytes
///   2  parts to be added, and a result that is added to, 4 million bytes
///   3  depth of full waves; of stream-K of all tiles, evenly
///   4  depth of a wave with few blocks a multiprocessor; of blocks that work through all tiles that by which they wait
///      for the caches
///   5  depth of a last wave; of stream-K of waves too many, where tiles are nearly as many as blocks
///   6  the filled share of a last wave's depth
///   7  waves
/// Why a last wave counts whole: a multiprocessor whose blocks end together takes as many new ones.
inline constexpr std::size_t kKernelTerms = 8;
using KernelTerms = std::array<double, kKernelTerms>;
KernelTerms kernel_terms(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape,
                         std::int64_t number_bytes, std::int64_t multiprocessors);

struct ProductKernel {
  KernelTiling tiling;
  KernelTerms parameters_us{};  // >= 0
  std::int64_t probes = 0;      // products that they were fitted from; 0: from the other kernels
};

/// The kernel of one size.
struct KernelChoice {
  std::size_t kernel = 0;  // index into ProductModel::kernels
  std::int64_t splits = 1;
  auto operator<=>(const KernelChoice&) const = default;
};

/// The library's answers for a lattice of sizes. Under AMP there are two of a kind: for rows that are a multiple of 8
/// the library has other kernels than for those that are not, which are all alike (cuBLAS 13.1 on H200, asked for every
/// row from 16 to 3,000 of seven widths; in fp32 and TF32 rows make no such difference).
struct ProductChoices {
  ProductKind kind;
  std::vector<std::int64_t> rows;                             // ascending
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;  // (in, out), ascending
  std::vector<std::vector<KernelChoice>> of_shape;            // by shape, then by row

  bool of_odd_rows() const { return rows.front() % 2 == 1; }
};

/// By kind, of each the one of odd rows behind the other.
bool goes_before(const ProductChoices& a, const ProductChoices& b);

/// What all kernels of a data type on tensor cores take over what their parameters say, by the size of the product:
/// mostly the clock, which differs a little even where the card rests between products. Straight between the points in
/// log(FLOPs), constant beyond them.
struct ClockCurve {
  Dtype dtype = Dtype::fp32;
  std::vector<double> flops;       // ascending
  std::vector<double> log_factor;  // as many
};

struct ProductModel {
  std::string library;                  // "cuBLAS 13.1.0": whose choices
  std::string asked_by;                 // "stream capture"
  std::string card;                     // that it was measured on
  std::int64_t multiprocessors = 0;     // of that card
  std::vector<ProductKernel> kernels;   // ascending tiling
  std::vector<ProductChoices> choices;  // in the order of goes_before()
  std::vector<ClockCurve> clocks;       // of data types on tensor cores
  double memory_bytes_per_ns = 0;       // no product moves its operands and result faster; 0: not known
};

/// 0 where there is no curve for the data type.
double log_clock_factor(const std::vector<ClockCurve>& clocks, Dtype dtype, const ProductShape& shape);

struct ProductTime {
  double ns = 0;
  std::int64_t blocks = 0;    // thread blocks of the launch
  std::int64_t resident = 1;  // of them at once on a multiprocessor
  const ProductKernel* kernel = nullptr;
  bool covered = true;        // false: beyond the lattice, or of a width that the library was not asked for
  double octaves_beyond = 0;  // the largest width or rows, or below the fewest rows that are timed: log2
};

/// Times of many products by one model. It may be asked by several threads at once.
class ProductTimes {
 public:
  /// `model` must outlive this.
  explicit ProductTimes(const ProductModel& model);

  /// Nothing if the library was not asked for products of that kind. Sizes are positive.
  std::optional<ProductTime> at(const ProductKind& kind, const ProductSize& size) const;

 private:
  /// Where none of the lattice is of the very shape: of 1,550 products on an H200 that are not square (2026-11-29) the
  /// fastest kernel of 6 shapes is 4 to 8 % off, that of the nearest one 8 to 21 %, mostly too slow.
  static constexpr std::size_t kShapesAround = 6;
  using NearShapes = boost::container::static_vector<std::size_t, kShapesAround>;

  std::optional<std::size_t> choices_of(const ProductKind& kind, std::int64_t rows) const;
  NearShapes near_shapes(std::size_t choices, const ProductSize& size) const;

  const ProductModel& model_;
  std::vector<std::vector<std::array<double, 2>>> log_shapes_;  // by choices, then by shape: log(in), log(out)
};

/// The same for one product.
std::optional<ProductTime> product_time(const ProductModel& model, const ProductKind& kind, const ProductSize& size);

/// 4, or 2 under AMP.
std::int64_t product_number_bytes(Dtype dtype);

}  // namespace pdl
