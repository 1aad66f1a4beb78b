// Memory over time as charts: what is allocated on each GPU during the step, by what it is, one area on the other.
//
//   for (ChartFigure& figure : memory_figures(run)) document.add(std::move(figure));
//
// A GPU whose memory changes more often than a chart has columns of pixels is drawn by the moments that matter: in each
// interval that where most is allocated, so that no peak is lost, and its last, so that each interval ends with what is
// allocated then. Of many GPUs the first and the last are drawn.
// Units: GiB (2^30 bytes), milliseconds from the start of the step.
#pragma once

#include <vector>

#include "sim/report/document.hpp"
#include "sim/run/memory_over_time.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct MemoryFigureLimits {
  std::size_t most_samples = 600;  // of a GPU
  std::size_t most_gpus = 8;
};

/// One a GPU; one of all where no memory changes during the step, as in pdl-run's pipelines, whose buffers stay; none
/// where the memory of the run is not known (memory_over_time).
std::vector<ChartFigure> memory_figures(const RunResult& run, const MemoryFigureLimits& limits = {});

/// At most `most` samples, or three: the first, and of intervals of equal length the one with most bytes and the last;
/// all where there are no more. `samples`: by time, from 0.
std::vector<MemorySample> thinned_samples(const std::vector<MemorySample>& samples, std::size_t most);

}  // namespace pdl
