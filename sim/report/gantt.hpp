// A Gantt chart in characters: a row a GPU, time from left to right.
//
//          0         5         10        15   ms
//   GPU 0 |F0>F1>F2>...........B0<<<<B1<<<<B2<<<<|
//   GPU 1 |...F0>F1>F2>..B0<<<<B1<<<<B2<<<<......|
//
// Where GPUs hold several stages, each stage has a row, blank while the GPU computes for another:
//
//   GPU 0 s0 |F0F1F2        W0  ....|
//         s7 |      F0I0W0I1  W1....|
//
// With more than GanttStyle::most_rows of them a GPU has one row, and names carry the stage: 7F0.
//
// A column shows what filled most of it: an operation (its name where it fits, then > forward or < backward), o the
// optimizer, ~ a transfer while nothing is computed, . idle. Operations shorter than a column are not all seen.
#pragma once

#include <string>
#include <vector>

#include "sim/run/run_result.hpp"
#include "sim/run/spans_of_gpus.hpp"

namespace pdl {

struct GanttStyle {
  std::size_t width = 100;     // columns of the terminal; at least 40 are used
  bool color = false;          // ANSI colours besides the letters
  std::size_t most_rows = 32;  // of more GPUs the first and the last are drawn, and a line says how many are not
};

/// Time axis, rows and legend. Lines end with '\n'.
std::string gantt(const RunResult& run, const GanttStyle& style);

/// The same from spans that the caller has, which are those of the run.
std::string gantt(const RunResult& run, const SpansOfGpus& spans, const GanttStyle& style);

/// Which of `count` rows are shown when at most `most` may be: the first half and the last half, in order.
std::vector<std::size_t> shown_rows(std::size_t count, std::size_t most);

}  // namespace pdl
