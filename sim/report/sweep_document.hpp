// A sweep for people: what all rows have in common, a table, notes of rows, the sentence that names the winners,
// charts.
//
//   row  schedule  microbatches  step time (ms)  ideal step time (ms)  bubble (%)  peak memory (GiB)  ...
//   ------------------------------------------------------------------------------------------------------
//     1  gpipe                2          93.021                91.250        60.2               3.39
//     2  gpipe                4          74.104                73.005        42.9               3.39  fastest
//
// For programs: sweep_json(), sweep_csv() (sim/study/sweep.hpp).
#pragma once

#include "sim/report/document.hpp"
#include "sim/study/sweep.hpp"

namespace pdl {

Document sweep_document(const Sweep& sweep);

}  // namespace pdl
