#include "sim/cost/product_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

double millions_of_numbers(double numbers, std::int64_t number_bytes) {
  return numbers * static_cast<double>(number_bytes) / 4e6;
}

double log_distance(std::int64_t a, std::int64_t b) {
  return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
}

/// The nearest of the lattice: of widths by the sum of both distances.
std::size_t nearest_shape(const ProductChoices& choices, const ProductSize& size) {
  const auto exact = std::lower_bound(choices.shapes.begin(), choices.shapes.end(), std::pair(size.in, size.out));
  if (exact != choices.shapes.end() && *exact == std::pair(size.in, size.out))
    return static_cast<std::size_t>(exact - choices.shapes.begin());
  std::size_t best = 0;
  double least = INFINITY;
  for (std::size_t i = 0; i < choices.shapes.size(); ++i) {
    const auto& [in, out] = choices.shapes[i];
    const double distance = log_distance(in, size.in) + log_distance(out, size.out);
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

std::size_t nearest_row(const ProductChoices& choices, std::int64_t rows) {
  const auto above = std::lower_bound(choices.rows.begin(), choices.rows.end(), rows);
  if (above == choices.rows.begin()) return 0;
  if (above == choices.rows.end()) return choices.rows.size() - 1;
  const bool lower_is_nearer = log_distance(*(above - 1), rows) < log_distance(*above, rows);
  return static_cast<std::size_t>(above - choices.rows.begin()) - (lower_is_nearer ? 1 : 0);
}

/// Another width of the lattice is nearer than this share: kernels hardly differ.
constexpr double kNearWidth = 0.08;

}  // namespace

ProductShape product_shape(const std::string& operation, const ProductSize& size) {
  if (operation == "forward") return {size.out, size.rows, size.in};
  if (operation == "backward_input") return {size.in, size.rows, size.out};
  return {size.in, size.out, size.rows};
}

std::int64_t product_number_bytes(Dtype dtype) {
  return is_amp(dtype) ? 2 : 4;
}

std::int64_t launched_blocks(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape) {
  const std::int64_t blocks = tiles_of(tiling, shape) * splits;
  if (tiling.grid_limit == 0) return blocks;
  return tiling.shares_tiles ? tiling.grid_limit : std::min(blocks, tiling.grid_limit);
}

KernelTerms kernel_terms(const KernelTiling& tiling, std::int64_t splits, const ProductShape& shape,
                         std::int64_t number_bytes, std::int64_t multiprocessors) {
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const std::int64_t blocks = tiles_of(tiling, shape) * splits;
  const std::int64_t resident = tiling.grid_limit > 0 ? 1 : tiling.resident;
  const std::int64_t slots = tiling.grid_limit > 0 ? tiling.grid_limit : multiprocessors * resident;
  const double depth = k / static_cast<double>(splits) / 1e3;
  KernelTerms terms{};
  terms[0] = 1;
  terms[1] = millions_of_numbers(m * k + k * n + m * n, number_bytes);
  if (splits > 1) terms[2] = millions_of_numbers(m * n * static_cast<double>(splits), number_bytes);
  if (tiling.shares_tiles) {
    terms[3] = static_cast<double>(blocks) / static_cast<double>(slots) * depth;
    terms[7] = 1;
    return terms;
  }
  const std::int64_t full = blocks / slots, left = blocks % slots;
  const auto of_multiprocessor = static_cast<double>(resident);
  terms[7] = static_cast<double>(full + (left > 0 ? 1 : 0));
  if (resident == 1) {
    terms[3] = terms[7] * depth;
  } else if (full == 0) {
    // q blocks on the fullest multiprocessor: one alone is slower than its share of many.
    const auto q = static_cast<double>(divided_up(left, multiprocessors));
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

std::optional<ProductTime> product_time(const ProductModel& model, const ProductKind& kind, const ProductSize& size) {
  const auto choices = std::find_if(model.choices.begin(), model.choices.end(),
                                    [&](const ProductChoices& of_kind) { return of_kind.kind == kind; });
  if (choices == model.choices.end()) return std::nullopt;
  const std::size_t s = nearest_shape(*choices, size);
  const KernelChoice& choice = choices->of_shape[s][nearest_row(*choices, size.rows)];
  const ProductKernel& kernel = model.kernels[choice.kernel];
  const ProductShape shape = product_shape(kind.operation, size);
  const KernelTerms terms = kernel_terms(kernel.tiling, choice.splits, shape, product_number_bytes(kind.dtype),
                                         model.multiprocessors);
  const double us = std::inner_product(terms.begin(), terms.end(), kernel.parameters_us.begin(), 0.0);
  const auto& [in, out] = choices->shapes[s];
  const bool covered = log_distance(in, size.in) + log_distance(out, size.out) <= kNearWidth &&
                       size.rows <= choices->rows.back() && size.rows >= choices->rows.front();
  return ProductTime{us * 1e3, launched_blocks(kernel.tiling, choice.splits, shape), kernel.tiling.resident, &kernel,
                     covered};
}

}  // namespace pdl
