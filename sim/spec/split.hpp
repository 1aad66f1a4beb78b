// How things that do not divide are divided. Nothing is ever dropped: the parts always add up.
//
//   torch_chunk(10, 4)  -> 3 3 3 1        (as torch.chunk: equal slices of ceil(n / parts), the last one smaller,
//   torch_chunk(5, 4)   -> 2 2 1           possibly fewer slices than asked for)
//   spread(30, 4)       -> 8 8 7 7        (as even as possible, larger parts first)
#pragma once

#include <cstdint>
#include <vector>

namespace pdl {

/// Source of the rule: torch.chunk, PyTorch 2.11 (at::chunk: split_size = ceil(n / parts)). n >= 1, parts >= 1.
std::vector<std::int64_t> torch_chunk(std::int64_t n, std::int64_t parts);

/// n >= parts >= 1.
std::vector<std::int64_t> spread(std::int64_t n, std::int64_t parts);

}  // namespace pdl
