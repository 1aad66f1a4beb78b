#include "sim/report/memory_figure.hpp"

#include <algorithm>

#include "sim/report/gantt.hpp"

namespace pdl {
namespace {

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

/// A category that is never there has no area.
ChartFigure figure_of_gpu(std::size_t gpu, const std::vector<MemorySample>& samples, std::int64_t step_ns) {
  ChartFigure figure{.title = "Memory of GPU " + std::to_string(gpu),
                     .kind = ChartKind::stacked_area,
                     .x_title = "time (ms)",
                     .y_title = "allocated memory (GiB)"};
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    ChartSeries series{.name = to_string(static_cast<MemoryCategory>(c))};
    for (const MemorySample& sample : samples) {
      series.x.push_back(static_cast<double>(sample.time_ns) / 1e6);
      series.y.push_back(static_cast<double>(sample.bytes[c]) / kGibibyte);
    }
    if (*std::max_element(series.y.begin(), series.y.end()) <= 0) continue;
    if (samples.back().time_ns < step_ns) {
      series.x.push_back(static_cast<double>(step_ns) / 1e6);
      series.y.push_back(series.y.back());
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

/// Where nothing changes, a bar a GPU says as much.
ChartFigure figure_of_constant(const std::vector<GpuMemoryOverTime>& memory, const std::vector<std::size_t>& gpus) {
  ChartFigure figure{.title = "Memory, the same throughout the step: a pipeline allocates all its buffers before it",
                     .kind = ChartKind::stacked_bar,
                     .x_title = "GPU",
                     .y_title = "allocated memory (GiB)"};
  for (const std::size_t gpu : gpus) figure.x_labels.push_back("GPU " + std::to_string(gpu));
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    ChartSeries series{.name = to_string(static_cast<MemoryCategory>(c))};
    for (const std::size_t gpu : gpus)
      series.y.push_back(static_cast<double>(memory[gpu].samples.front().bytes[c]) / kGibibyte);
    if (*std::max_element(series.y.begin(), series.y.end()) > 0) figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace

std::vector<MemorySample> thinned_samples(const std::vector<MemorySample>& samples, std::size_t most) {
  if (samples.size() <= std::max<std::size_t>(most, 3)) return samples;
  const std::int64_t intervals = std::max<std::int64_t>(1, (static_cast<std::int64_t>(most) - 1) / 2);
  const std::int64_t length = samples.back().time_ns / intervals + 1;
  std::vector<MemorySample> kept = {samples.front()};
  for (std::size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    std::size_t peak = begin;
    for (; end < samples.size() && samples[end].time_ns / length == samples[begin].time_ns / length; ++end) {
      if (total_bytes(samples[end].bytes) > total_bytes(samples[peak].bytes)) peak = end;
    }
    if (peak > 0) kept.push_back(samples[peak]);
    if (end - 1 > peak) kept.push_back(samples[end - 1]);
  }
  return kept;
}

std::vector<ChartFigure> memory_figures(const RunResult& run, const MemoryFigureLimits& limits) {
  std::vector<ChartFigure> figures;
  const std::vector<GpuMemoryOverTime> memory = memory_over_time(run);
  const std::vector<std::size_t> gpus = shown_rows(memory.size(), limits.most_gpus);
  const auto is_constant = [](const GpuMemoryOverTime& of_gpu) { return of_gpu.samples.size() == 1; };
  if (!memory.empty() && std::all_of(memory.begin(), memory.end(), is_constant))
    return {figure_of_constant(memory, gpus)};
  for (const std::size_t gpu : gpus)
    figures.push_back(
        figure_of_gpu(gpu, thinned_samples(memory[gpu].samples, limits.most_samples), run.timeline.step_ns));
  return figures;
}

}  // namespace pdl
