#include "sim/cost/kernel_tiles.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "sim/cost/kernel_name.hpp"
#include "sim/cost/layer_model.hpp"

namespace pdl {
namespace {

std::int64_t tiles_along(std::int64_t numbers, std::int64_t tile) {
  return (numbers + tile - 1) / tile;
}

}  // namespace

std::vector<Kernel> kernels_by_tiles(std::vector<Kernel> kernels, const MeasuredKey& operation) {
  if (operation.probe != Probe::layer || !operation.dtype) return kernels;
  if (operation.layer.kind->scaling != LayerScaling::matrix_product) return kernels;
  const std::vector<std::string> products = products_of(operation);
  const auto multiplies = [](const Kernel& kernel) { return is_product_kernel(kernel.name); };
  if (std::count_if(kernels.begin(), kernels.end(), multiplies) != std::ssize(products)) return kernels;
  const ProductSize size{operation.size, input_numbers(operation.layer), output_numbers(operation.layer)};
  std::size_t next = 0;
  for (Kernel& kernel : kernels) {
    if (!multiplies(kernel)) continue;
    const ProductShape result = product_shape({operation.implementation, products[next++], *operation.dtype}, size);
    const auto tile = works_through_tiles(kernel.name) ? tile_in_name(kernel.name) : std::nullopt;
    if (!tile || kernel.blocks == 0) continue;
    kernel.blocks = std::max(kernel.blocks, tiles_along(result.m, tile->first) * tiles_along(result.n, tile->second));
  }
  return kernels;
}

}  // namespace pdl
