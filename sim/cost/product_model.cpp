#include "sim/cost/product_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace pdl {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t padded(std::int64_t count, std::int64_t cluster) {
  return divided_up(count, cluster) * cluster;
}

std::int64_t tiles_of(const KernelTiling& tiling, const ProductShape& shape) {
  return padded(divided_up(shape.m, tiling.tile_m), tiling.cluster_m) *
         padded(divided_up(shape.n, tiling.tile_n), tiling.cluster_n);
}

/// CUTLASS 3.5, GemmIdentityThreadblockSwizzle<8>::get_log_tile: groups of 8, 4 or 2 tiles, by how many there are; the
/// blocks of a group that have no tile end at once, but have taken their place.
std::int64_t launched_tiles(const KernelTiling& tiling, const ProductShape& shape) {
  if (!tiling.swizzles) return tiles_of(tiling, shape);
  const std::int64_t m = divided_up(shape.m, tiling.tile_m), n = divided_up(shape.n, tiling.tile_n);
  const std::int64_t group = m >= 6 ? 8 : m >= 3 ? 4 : m >= 2 ? 2 : 1;
  return padded(m, group) * n;
}

double log_distance(std::int64_t a, std::int64_t b) {
  return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
}

/// Whether between two rows of the lattice the library has the kernel of the row above. So it has in steps of tiles;
/// and of products of several ways the fastest kernel of the row above takes but .1 % longer than that of the row
/// itself (rows of two widths, 2304 and 5824, in steps of 4). Not so where it has another kernel at nearly every row.
bool as_the_row_above(const ProductChoices& choices) {
  return !is_amp(choices.kind.dtype) || choices.of_odd_rows();
}

/// The choices for so many rows: of one row of the lattice, or of the two below and the two above.
std::span<const KernelChoice> choices_around(const ProductChoices& choices, std::size_t shape, std::int64_t rows) {
  constexpr std::size_t kBeside = 2;
  const std::span<const KernelChoice> of_shape = choices.of_shape[shape];
  const auto above = std::lower_bound(choices.rows.begin(), choices.rows.end(), rows);
  const auto i = static_cast<std::size_t>(above - choices.rows.begin());
  if (above == choices.rows.end()) return of_shape.last(1);
  if (i == 0 || *above == rows || as_the_row_above(choices)) return of_shape.subspan(i, 1);
  const std::size_t first = i - std::min(i, kBeside);
  return of_shape.subspan(first, std::min(i + kBeside, of_shape.size()) - first);
}

double kernel_ns(const ProductModel& model, const ProductKind& kind, const KernelChoice& choice,
                 const ProductShape& shape) {
  const ProductKernel& kernel = model.kernels[choice.kernel];
  const std::int64_t number_bytes = product_number_bytes(kind.dtype);
  const KernelTerms terms = kernel_terms(kernel.tiling, choice.splits, shape, number_bytes, model.multiprocessors);
  const double ns = 1e3 * std::inner_product(terms.begin(), terms.end(), kernel.parameters_us.begin(), 0.0) *
                    std::exp(log_clock_factor(model.clocks, kind.dtype, shape));
  if (model.memory_bytes_per_ns == 0) return ns;
  return std::max(ns, product_bytes(shape, number_bytes) / model.memory_bytes_per_ns);
}

/// That the library was asked for: the lattice of rows that are no multiple of 8 ends one row below that of the others.
std::int64_t largest_rows(const ProductChoices& choices) {
  return choices.rows.back() + (choices.of_odd_rows() ? 1 : 0);
}

/// Another width of the lattice is nearer than this share: kernels hardly differ.
constexpr double kNearWidth = 0.08;

/// No product of fewer rows is timed (calibrate/probe/product_probe.cpp).
constexpr double kFewestTimed = 16;

/// Stream-K's tiles that are nearly as many as the blocks: a wave or two more than they fill (cuBLAS 13.1 on H200: 126
/// tiles of 128 x 128 on 132 blocks take 2 waves, 250 to 264 nearly 4; 144 to 190 take 1.6 to 2).
constexpr double kNearlyWhole = 0.15;

/// What a block needs from the second-level cache for a step of depth, by what it multiplies: one number of each
/// operand a row and column of its tile, of which the blocks of a cluster each load a part for all.
double cache_pressure(const KernelTiling& tiling) {
  const auto m = static_cast<double>(tiling.tile_m), n = static_cast<double>(tiling.tile_n);
  return (m / static_cast<double>(tiling.cluster_n) + n / static_cast<double>(tiling.cluster_m)) / (m * n);
}

/// By how much of its time a block would wait for the cache, if no other block wanted the same at that moment. On H200,
/// in TF32: the cache gives some 8 TB/s, what 132 blocks need of a pressure of .0098; those of 128 x 128 without
/// clusters need 12.6, and take up to 1.4 times as long; clusters of 4 do not wait.
double beyond_caches(const KernelTiling& tiling) {
  constexpr double kPressureOfCaches = 0.0098;
  return std::max(0.0, cache_pressure(tiling) / kPressureOfCaches - 1);
}

/// The share of a tile beyond the end of the result, in the last row or column of tiles: its blocks run ahead of the
/// others, which then find nothing that was loaded for a neighbour just before. As measured: from .1 on, fully at .8.
double out_of_step(const KernelTiling& tiling, const ProductShape& shape) {
  const auto empty = [](std::int64_t numbers, std::int64_t tile) {
    return static_cast<double>(padded(numbers, tile) - numbers) / static_cast<double>(tile);
  };
  return std::clamp((std::max(empty(shape.m, tiling.tile_m), empty(shape.n, tiling.tile_n)) - 0.1) / 0.7, 0.0, 1.0);
}

/// The data type first, which takes least to compare.
bool are_of_kind(const ProductChoices& choices, const ProductKind& kind) {
  return choices.kind.dtype == kind.dtype && choices.kind.operation == kind.operation &&
         choices.kind.implementation == kind.implementation;
}

}  // namespace

ProductShape product_shape(const ProductKind& kind, const ProductSize& size) {
  if (kind.operation == "forward") return {size.out, size.rows, size.in};
  if (kind.operation == "backward_input") return {size.in, size.rows, size.out};
  return {size.in, size.out, size.rows, kind.implementation == "pipeline"};
}

double product_bytes(const ProductShape& shape, std::int64_t number_bytes) {
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  return (m * k + k * n + m * n) * static_cast<double>(number_bytes);
}

std::int64_t product_number_bytes(Dtype dtype) {
  return is_amp(dtype) ? 2 : 4;
}

std::int64_t launched_blocks(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape) {
  const std::int64_t blocks = launched_tiles(tiling, shape) * splits;
  if (tiling.grid_limit == 0) return blocks;
  return tiling.shares_tiles ? tiling.grid_limit : std::min(blocks, tiling.grid_limit);
}

KernelTerms kernel_terms(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape,
                         std::int64_t number_bytes, std::int64_t multiprocessors) {
  const double result_bytes =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(number_bytes);
  const std::int64_t blocks = tiles_of(tiling, shape) * splits;
  const std::int64_t resident = tiling.grid_limit > 0 ? 1 : tiling.resident;
  const std::int64_t slots = tiling.grid_limit > 0 ? tiling.grid_limit : multiprocessors * resident;
  const double depth = static_cast<double>(shape.k) / static_cast<double>(splits) / 1e3;
  KernelTerms terms{};
  terms[0] = 1;
  terms[1] = product_bytes(shape, number_bytes) / 4e6;
  if (splits > 1) terms[2] = result_bytes * static_cast<double>(splits) / 4e6;
  if (shape.accumulates) terms[2] += result_bytes / 4e6;
  if (tiling.shares_tiles) {
    const double waves = static_cast<double>(blocks) / static_cast<double>(slots);
    terms[3] = waves * depth;
    terms[4] = terms[3] * beyond_caches(tiling);
    if (waves <= 2 && std::ceil(waves) - waves < kNearlyWhole) terms[5] = std::ceil(waves) * depth;
    terms[7] = 1;
    return terms;
  }
  const std::int64_t full = blocks / slots, left = blocks % slots;
  const auto of_multiprocessor = static_cast<double>(resident);
  terms[7] = static_cast<double>(full + (left > 0 ? 1 : 0));
  if (resident == 1 && tiling.grid_limit == 0) {
    terms[3] = terms[7] * depth;
  } else if (resident == 1) {
    // Blocks that work through all tiles: the fewer have a last one, the more of the memory each has.
    terms[3] = static_cast<double>(full) * depth;
    if (left > 0) terms[5] = depth;
    terms[6] = depth * static_cast<double>(left) / static_cast<double>(slots);
    terms[4] = (terms[3] + terms[5]) * beyond_caches(tiling) * out_of_step(tiling, shape);
  } else if (full == 0) {
    // q blocks on the fullest multiprocessor: one alone is slower than its share of many.
    const std::int64_t placed = std::min(slots, launched_tiles(tiling, shape) * splits);
    const auto q = static_cast<double>(divided_up(placed, multiprocessors));
    const double alone = 1 / (q * q * q);
    terms[3] = depth * q * (1 - alone);
    terms[4] = depth * q * alone;
  } else {
    terms[3] = static_cast<double>(full) * of_multiprocessor * depth;
    if (left > 0) terms[5] = of_multiprocessor * depth;
    terms[6] = of_multiprocessor * depth * static_cast<double>(left) / static_cast<double>(slots);
  }
  return terms;
}

bool goes_before(const ProductChoices& a, const ProductChoices& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.of_odd_rows() < b.of_odd_rows();
}

double log_clock_factor(const std::vector<ClockCurve>& clocks, Dtype dtype, const ProductShape& shape) {
  const auto curve = std::find_if(clocks.begin(), clocks.end(), [&](const ClockCurve& c) { return c.dtype == dtype; });
  if (curve == clocks.end()) return 0;
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const auto above = std::lower_bound(curve->flops.begin(), curve->flops.end(), flops);
  const auto i = static_cast<std::size_t>(above - curve->flops.begin());
  if (i == 0) return curve->log_factor.front();
  if (i == curve->flops.size()) return curve->log_factor.back();
  const double part = std::log(flops / curve->flops[i - 1]) / std::log(curve->flops[i] / curve->flops[i - 1]);
  return curve->log_factor[i - 1] + part * (curve->log_factor[i] - curve->log_factor[i - 1]);
}

ProductTimes::ProductTimes(const ProductModel& model) : model_(model) {
  for (const ProductChoices& choices : model.choices) {
    std::vector<std::array<double, 2>>& logs = log_shapes_.emplace_back();
    for (const auto& [in, out] : choices.shapes)
      logs.push_back({std::log(static_cast<double>(in)), std::log(static_cast<double>(out))});
  }
}

/// Of two of a kind the one for such rows.
std::optional<std::size_t> ProductTimes::choices_of(const ProductKind& kind, std::int64_t rows) const {
  constexpr std::int64_t kAligned = 8;
  std::optional<std::size_t> found;
  for (std::size_t c = 0; c < model_.choices.size(); ++c) {
    if (!are_of_kind(model_.choices[c], kind)) continue;
    if (!found || model_.choices[c].of_odd_rows() == (rows % kAligned != 0)) found = c;
  }
  return found;
}

/// Of the lattice, the nearest first: by the sum of both distances, the first of equals. One, where it has this very
/// shape; else several, of whose kernels the library finds a fast one: that of a width which just fills its waves is
/// slow a little beyond it.
ProductTimes::NearShapes ProductTimes::near_shapes(std::size_t of, const ProductSize& size) const {
  const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes = model_.choices[of].shapes;
  const auto exact = std::lower_bound(shapes.begin(), shapes.end(), std::pair(size.in, size.out));
  if (exact != shapes.end() && *exact == std::pair(size.in, size.out))
    return NearShapes(1, static_cast<std::size_t>(exact - shapes.begin()));
  const double log_in = std::log(static_cast<double>(size.in)), log_out = std::log(static_cast<double>(size.out));
  // They stand by `in`: from there on either side, until that alone is farther than the shapes that were found.
  boost::container::static_vector<std::pair<double, std::size_t>, kShapesAround + 1> nearest;  // distance; ascending
  const auto may_be_near = [&](std::size_t i) {
    const double of_in = std::abs(log_shapes_[of][i][0] - log_in);
    if (nearest.size() == kShapesAround && of_in > nearest.back().first) return false;
    const std::pair shape(of_in + std::abs(log_shapes_[of][i][1] - log_out), i);
    nearest.insert(std::upper_bound(nearest.begin(), nearest.end(), shape), shape);
    if (nearest.size() > kShapesAround) nearest.pop_back();
    return true;
  };
  const auto middle = static_cast<std::size_t>(exact - shapes.begin());
  for (std::size_t i = middle; i < shapes.size() && may_be_near(i); ++i) continue;
  for (std::size_t i = middle; i-- > 0 && may_be_near(i);) continue;
  NearShapes near;
  for (const auto& [distance, shape] : nearest) near.push_back(shape);
  return near;
}

std::optional<ProductTime> ProductTimes::at(const ProductKind& kind, const ProductSize& size) const {
  const std::optional<std::size_t> of = choices_of(kind, size.rows);
  if (!of) return std::nullopt;
  const ProductChoices& choices = model_.choices[*of];
  const NearShapes near = near_shapes(*of, size);
  const ProductShape shape = product_shape(kind, size);
  double ns = INFINITY;
  KernelChoice choice;
  for (const std::size_t s : near) {
    for (const KernelChoice& around : choices_around(choices, s, size.rows)) {
      const double around_ns = kernel_ns(model_, kind, around, shape);
      if (around_ns >= ns) continue;
      ns = around_ns;
      choice = around;
    }
  }
  const ProductKernel& kernel = model_.kernels[choice.kernel];
  const auto& [in, out] = choices.shapes[near.front()];
  const bool covered = log_distance(in, size.in) + log_distance(out, size.out) <= kNearWidth &&
                       size.rows <= largest_rows(choices) && size.rows >= choices.rows.front();
  const auto widest = static_cast<double>(choices.shapes.back().first);
  const auto rows = static_cast<double>(size.rows);
  const double beyond = std::max({1.0, static_cast<double>(std::max(size.in, size.out)) / widest,
                                  rows / static_cast<double>(largest_rows(choices)), kFewestTimed / rows});
  return ProductTime{ns,
                     launched_blocks(kernel.tiling, choice.splits, shape),
                     kernel.tiling.resident,
                     &kernel,
                     covered,
                     std::log2(beyond)};
}

std::optional<ProductTime> product_time(const ProductModel& model, const ProductKind& kind, const ProductSize& size) {
  return ProductTimes(model).at(kind, size);
}

}  // namespace pdl
