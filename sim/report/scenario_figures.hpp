// The chart of an exercise, where one answers its question: what the rows vary over the axis, a line a series.
//
//   strong_scaling: speed-up over GPUs     batch_size: throughput over the batch
#pragma once

#include <vector>

#include "sim/course/questions.hpp"
#include "sim/report/document.hpp"

namespace pdl {

/// None where the exercise has no chart or no series has two points. `tables`: one at least.
std::vector<ChartFigure> scenario_figures(const Tables& tables);

}  // namespace pdl
