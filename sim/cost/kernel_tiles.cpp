#include "sim/cost/kernel_tiles.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "sim/cost/layer_model.hpp"

namespace pdl {
namespace {

bool works_through_tiles(const std::string& name) {
  return name.find("nvjet") != name.npos || name.find("sm90_xmma") != name.npos;
}

/// The first "256x128" of the name, as (m, n). Names of xmma kernels say "tilesize", and the result's other direction
/// first.
std::optional<std::pair<std::int64_t, std::int64_t>> tile_in(const std::string& name) {
  const std::size_t word = name.find("tilesize");
  const auto is_digit = [&](std::size_t i) {
    return i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0;
  };
  for (std::size_t x = name.find('x', word == name.npos ? 0 : word); x != name.npos; x = name.find('x', x + 1)) {
    std::size_t begin = x;
    while (begin > 0 && is_digit(begin - 1)) --begin;
    if (begin == x || x - begin > 4 || !is_digit(x + 1)) continue;
    const std::int64_t first = std::stoll(name.substr(begin, x - begin)), second = std::stoll(name.substr(x + 1, 4));
    if (first < 1 || second < 1) continue;
    return word == name.npos ? std::pair(first, second) : std::pair(second, first);
  }
  return std::nullopt;
}

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
    const auto tile = works_through_tiles(kernel.name) ? tile_in(kernel.name) : std::nullopt;
    if (!tile || kernel.blocks == 0) continue;
    kernel.blocks = std::max(kernel.blocks, tiles_along(result.m, tile->first) * tiles_along(result.n, tile->second));
  }
  return kernels;
}

}  // namespace pdl
