#include "sim/spec/split.hpp"

#include <algorithm>

namespace pdl {

std::vector<std::int64_t> torch_chunk(std::int64_t n, std::int64_t parts) {
  const std::int64_t slice = (n + parts - 1) / parts;
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = n; rest > 0; rest -= slice) sizes.push_back(std::min(slice, rest));
  return sizes;
}

std::vector<std::int64_t> spread(std::int64_t n, std::int64_t parts) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), n / parts);
  for (std::int64_t i = 0; i < n % parts; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

}  // namespace pdl
