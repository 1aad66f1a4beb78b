#include "sim/cost/kernel_name.hpp"

#include <cctype>

namespace pdl {

bool is_product_kernel(const std::string& name) {
  for (const char* word : {"gemm", "nvjet", "cutlass"}) {
    if (name.find(word) != name.npos && name.find("splitKreduce") == name.npos) return true;
  }
  return false;
}

bool works_through_tiles(const std::string& name) {
  return name.find("nvjet") != name.npos || name.find("sm90_xmma") != name.npos;
}

/// The first "256x128" of the name; of one that says "tilesize" the first after that.
std::optional<std::pair<std::int64_t, std::int64_t>> tile_in_name(const std::string& name) {
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

}  // namespace pdl
