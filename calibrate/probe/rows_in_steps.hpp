// Which rows of a lattice a library has to be asked for, where its answers change in steps.
//
//   rows       8  16  24  32  40  48  56  64
//   kernel     a   a   a   a   b   b   b   b       asked: 8, 64 (differ), 32 (as 8), 48 (as 64), 40 (as 48)
//   answer of  8   8   8  32  40  48  48  64       16 and 24 lie between 8 and 32, which have the same
//
// A step between two rows of the same kernel that is as narrow as those are apart is missed: of cuBLAS 13.1's choices on
// an H200 between 16 and 3,000 rows 1 to 5 % where rows are sixteen to each power of two at first.
//
// Units: indices of rows. Not here: what is asked (product_probe.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace pdl {

/// For each of `count` rows the row whose answer it has: itself where it was asked. `same`: whether two rows, which it
/// asks for, have the same answer. First asked: every row, the further from the beginning the further apart, at most
/// 8, and the last one.
std::vector<std::size_t> rows_in_steps(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& same);

}  // namespace pdl
