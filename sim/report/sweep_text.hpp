// A sweep for people: what all rows have in common, a table, notes of rows, the sentence that names the winners.
//
//   row  schedule  microbatches  step time   bound  bubble  peak memory         live  their size
//                                       ms      ms       %          GiB  activations         GiB
//   ----------------------------------------------------------------------------------------------------
//     1  gpipe                2     93.021  91.250    60.2         3.39            2        0.25
//     2  gpipe                4     74.104  73.005    42.9         3.39            4        0.25  fastest, least memory
//
// For programs: sweep_json(), sweep_csv() (sim/study/sweep.hpp).
#pragma once

#include <cstddef>
#include <string>

#include "sim/study/sweep.hpp"

namespace pdl {

/// `width`: columns of the terminal, for the sentences.
std::string sweep_text(const Sweep& sweep, std::size_t width);

}  // namespace pdl
