#include "sim/report/scenario_figures.hpp"

#include <algorithm>
#include <array>

#include "sim/course/series.hpp"
#include "sim/study/common_settings.hpp"

namespace pdl {
namespace {

enum class Over { gpus, batch, delay, accumulation, depth, microbatches };
enum class Shown { step_time, speedup, throughput };

struct ChartKindOfExercise {
  const char* exercise;
  Over over;
  Shown shown;
};
constexpr std::array kCharts = {
    ChartKindOfExercise{"strong_scaling", Over::gpus, Shown::speedup},
    ChartKindOfExercise{"communication_computation", Over::gpus, Shown::speedup},
    ChartKindOfExercise{"artificial_delay", Over::delay, Shown::step_time},
    ChartKindOfExercise{"batch_size", Over::batch, Shown::throughput},
    ChartKindOfExercise{"accumulation_sweep", Over::accumulation, Shown::step_time},
    ChartKindOfExercise{"model_size", Over::depth, Shown::step_time},
    ChartKindOfExercise{"more_gpus", Over::gpus, Shown::step_time},
    ChartKindOfExercise{"options_by_microbatches", Over::microbatches, Shown::step_time},
};

struct Axis {
  const char* setting;
  const char* title;
  double (*value)(const RunSpec&);
};
Axis axis_of(Over over) {
  switch (over) {
    case Over::gpus: return {"gpus", "GPUs", [](const RunSpec& s) { return static_cast<double>(s.gpus); }};
    case Over::batch:
      return {"batch", "batch (samples)", [](const RunSpec& s) { return static_cast<double>(s.batch); }};
    case Over::delay: return {"delay-ms", "delay (ms)", [](const RunSpec& s) { return s.delay_ms; }};
    case Over::accumulation:
      return {"accum", "gradient accumulation steps", [](const RunSpec& s) { return static_cast<double>(s.accum); }};
    case Over::depth: return {"depth", "layers", [](const RunSpec& s) { return static_cast<double>(s.depth); }};
    case Over::microbatches: break;
  }
  return {"microbatches", "micro-batches", [](const RunSpec& s) { return static_cast<double>(s.microbatches); }};
}

const char* title_of(Shown shown) {
  return shown == Shown::speedup      ? "speed-up"
         : shown == Shown::throughput ? "throughput (samples/s)"
                                      : "step time (ms)";
}

/// "depth 8, dim 8192 (measured)": what tells the series from the others.
std::string name_of(const Series& series, const std::vector<SettingValue>& common, const char* axis) {
  std::string text;
  for (const SettingValue& setting : to_settings(series.rows.front()->spec)) {
    const bool same = std::any_of(common.begin(), common.end(), [&](const auto& c) { return c.name == setting.name; });
    if (!same && setting.name != axis) text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  }
  return text.empty() ? source_of(series) : text + " (" + source_of(series) + ")";
}

double shown_value(Shown shown, const Series& series, const ScenarioRow& row) {
  if (shown == Shown::throughput) return run_of(series, row).metrics.throughput_samples_per_s;
  const double time_ms = step_ms(series, row);
  return shown == Shown::speedup ? step_ms(series, *series.rows.front()) / time_ms : time_ms;
}

}  // namespace

std::vector<ChartFigure> scenario_figures(const Tables& tables) {
  const Scenario& scenario = tables.front().scenario;
  const auto found = std::find_if(kCharts.begin(), kCharts.end(),
                                  [&](const auto& chart) { return scenario.answer == chart.exercise; });
  if (found == kCharts.end()) return {};
  const Axis axis = axis_of(found->over);
  ChartFigure figure{.title = scenario.title, .x_title = axis.title, .y_title = title_of(found->shown)};
  std::vector<std::vector<SettingValue>> all;
  for (const ScenarioRow& row : tables.front().rows) all.push_back(to_settings(row.spec));
  for (Series series : series_over(tables, {axis.setting})) {
    if (series.rows.size() < 2) continue;
    std::stable_sort(series.rows.begin(), series.rows.end(),
                     [&](auto* a, auto* b) { return axis.value(a->spec) < axis.value(b->spec); });
    ChartSeries line{.name = name_of(series, common_settings(all), axis.setting)};
    for (const ScenarioRow* row : series.rows) {
      line.x.push_back(axis.value(row->spec));
      line.y.push_back(shown_value(found->shown, series, *row));
    }
    figure.series.push_back(std::move(line));
  }
  if (figure.series.empty()) return {};
  figure.x_logarithmic = found->over == Over::batch;
  figure.y_logarithmic = found->over == Over::batch;
  return {figure};
}

}  // namespace pdl
