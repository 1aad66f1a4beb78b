// Which rows of a lattice a library has to be asked for, where its answers change in steps.
//
//   row        64  65  66  67  68  72  76       asked first: 64, 68, 72, 76; 64 and 68 differ: 66, as 64, then 67
//   kernel     a   a   a   b   b   b   b
//   answer of  64  64  66  67  68  68  72       65 lies between two of one answer; so do 69 to 71, and 73 to 75
//
// Which rows are first: each up to the 32nd, then every second, third, ... and from the 128th on every eighth. A step
// between two of them that have the same kernel is missed: of cuBLAS 13.1's choices on an H200 between 16 and 3,000
// rows 1 to 5 % where there were eight first rows to each power of two; now there are eight to thirty-two.
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
