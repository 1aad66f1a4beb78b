#include "sim/report/validation_document.hpp"

#include <algorithm>
#include <map>

#include "sim/io/number_text.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/study/plan_ranking.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostTerminalRows = 20;

bool several_profiles(const Validation& validation) {
  return std::any_of(validation.runs.begin(), validation.runs.end(),
                     [&](const ValidatedRun& run) { return run.profile_name != validation.runs.front().profile_name; });
}

bool any_host_bound(const Validation& validation) {
  return std::any_of(validation.runs.begin(), validation.runs.end(),
                     [](const ValidatedRun& run) { return run.host_bound(); });
}

TableCell cell_of(const std::optional<double>& value, int digits) {
  return value ? TableCell(fixed(*value, digits), *value) : TableCell("-");
}

TableCell error_cell(const std::optional<double>& percent) {
  return percent ? TableCell(signed_fixed(*percent, 2), *percent) : TableCell("-");
}

std::vector<TableCell> cells_of_run(const ValidatedRun& run, bool host_bound, bool with_bars, bool with_profile) {
  const StepTime& time = run.measured.step_time;
  std::vector<TableCell> cells = {run.name,
                                  cell_of(time.median_ms, 3),
                                  cell_of(time.p25_ms, 3),
                                  cell_of(time.p75_ms, 3),
                                  cell_of(run.predicted.step_time.median_ms, 3),
                                  error_cell(run.error_percent),
                                  error_cell(run.worst_memory_error_percent())};
  if (host_bound) {
    cells.push_back(cell_of(100 * run.host_share, 0));
    const bool spread = time.p25_ms && time.p75_ms;
    cells.push_back(
        cell_of(spread ? std::optional(100 * (*time.p75_ms - *time.p25_ms) / time.median_ms) : std::nullopt, 1));
  }
  if (with_bars) {
    const auto& bar = run.predicted.error_bar;
    const auto inside = run.inside();
    const std::vector<TableCell> of_bar = {
        half_width_cell(bar),
        inside ? (*inside ? "yes" : "no") : "-",
        bar ? (bar->probed() ? "yes" : "no") : "-",
    };
    cells.insert(cells.begin() + 6, of_bar.begin(), of_bar.end());
  }
  if (const auto& noise = run.predicted.noise) {
    cells.push_back(cell_of(noise->p10_ms, 3));
    cells.push_back(cell_of(noise->p90_ms, 3));
    cells.push_back(*run.inside_noise() ? "yes" : "no");
  }
  if (with_profile) cells.insert(cells.begin() + 1, run.profile_name);
  return cells;
}

/// Of the runs that are host-bound, or of the others.
Table run_table(const Validation& validation, bool host_bound) {
  Table table{.name = host_bound ? "host_bound_runs" : "runs",
              .columns = {{"run", "run", "", "", Align::left},
                          {"measured_ms", "measured", "ms", "the median step"},
                          {"measured_p25_ms", "p25", "ms", ""},
                          {"measured_p75_ms", "p75", "ms", "as p25 a quartile of the measured steps"},
                          {"predicted_ms", "predicted", "ms", ""},
                          {"error_percent", "error", "%", "(predicted - measured) / measured"},
                          {"memory_error_percent", "memory error", "%",
                           "of the peak memory, of the GPU of the run where it is largest"}}};
  if (host_bound) {
    table.title = "Host-bound runs: if the host took no time, the predicted step would be more than " +
                  percent(kHostBoundShare) + " shorter";
    table.columns.push_back(
        {"host_percent", "host share", "%", "how much shorter the predicted step would be if the host took no time"});
    table.columns.push_back({"spread_percent", "spread", "%", "(p75 - p25) / median"});
  }
  const bool with_bars = validation.any_error_bar(), with_profile = several_profiles(validation);
  if (with_bars) {
    const std::vector<TableColumn> of_bar = {
        half_width_column(),
        {"inside", "inside", "", "the measured median lies within predicted (1 ± half width)", Align::left},
        {"probed", "probed", "", "what the prediction rests on was measured by probes", Align::left}};
    table.columns.insert(table.columns.begin() + 6, of_bar.begin(), of_bar.end());
  }
  if (validation.any_noise()) {
    table.columns.push_back({"predicted_p10_ms", "p10", "ms", "10 % of the drawn steps take less"});
    table.columns.push_back({"predicted_p90_ms", "p90", "ms", "90 % of the drawn steps take less"});
    table.columns.push_back(
        {"inside_p10_p90", "p10 to p90", "", "the measured median lies between p10 and p90", Align::left});
  }
  if (with_profile) table.columns.insert(table.columns.begin() + 1, {"profile", "profile", "", "", Align::left});
  table.most_terminal_rows = kMostTerminalRows;
  const auto error = std::find_if(table.columns.begin(), table.columns.end(),
                                  [](const TableColumn& column) { return column.key == "error_percent"; });
  table.worst_by = static_cast<std::size_t>(error - table.columns.begin());
  for (const ValidatedRun& run : validation.runs) {
    if (run.host_bound() == host_bound) table.rows.push_back(cells_of_run(run, host_bound, with_bars, with_profile));
  }
  return table;
}

std::vector<TableCell> summary_cells(const std::string& group, const std::string& what, const ErrorSummary& summary,
                                     const Validation& validation, bool signed_mean) {
  std::vector<TableCell> cells = {group,
                                  what,
                                  {std::to_string(summary.runs), static_cast<double>(summary.runs)},
                                  cell_of(summary.mean, 2),
                                  cell_of(summary.median, 2),
                                  cell_of(summary.max, 2)};
  if (signed_mean) cells.push_back(error_cell(summary.mean_signed));
  const auto share_cell = [](const std::optional<double>& share) {
    return cell_of(share ? std::optional(100 * *share) : std::nullopt, 0);
  };
  if (validation.any_error_bar()) {
    cells.push_back(share_cell(summary.inside_share));
    cells.push_back(cell_of(summary.median_half_width_percent, 2));
  }
  if (validation.any_noise()) cells.push_back(share_cell(summary.inside_noise_share));
  return cells;
}

/// `signed_mean`: with that column. Of PyTorch's programs, and of those beside them, it says whether predictions are
/// rather too long or too short: their hosts differ.
Table summary_table(const Validation& validation, bool signed_mean) {
  Table table{.name = "errors",
              .title = "Absolute errors",
              .columns = {{"group", "group", "", "", Align::left},
                          {"of", "error of", "", "", Align::left},
                          {"values", "values"},
                          {"mean_percent", "mean", "%"},
                          {"median_percent", "median", "%"},
                          {"max_percent", "maximum", "%"}}};
  if (signed_mean)
    table.columns.push_back({"mean_signed_percent", "mean signed", "%", "above 0: predictions are too long"});
  if (validation.any_error_bar()) {
    table.columns.push_back(
        {"inside_percent", "share inside", "%", "measured medians within the error bars; 90 % should be"});
    table.columns.push_back({"median_half_width_90_percent", "median ±", "%", "of the error bars"});
  }
  if (validation.any_noise()) {
    table.columns.push_back(
        {"inside_p10_p90_percent", "p10 to p90", "%", "measured medians between p10 and p90 of the drawn steps"});
  }
  const auto add = [&](const std::string& group, const char* what, const ErrorSummary& summary) {
    table.rows.push_back(summary_cells(group, what, summary, validation, signed_mean));
  };
  for (const ErrorsOfGroup& group : validation.step_time_by_group()) add(group.group, "step time", group.errors);
  for (const bool probed : {true, false}) {
    const ErrorSummary summary = validation.step_time_where(probed);
    if (summary.runs > 0) add(probed ? "probed" : "not probed", "step time", summary);
  }
  if (any_host_bound(validation)) {
    add("all GPU-bound runs", "step time", validation.step_time(false));
    add("all host-bound runs", "step time", validation.step_time(true));
  } else {
    add("all runs", "step time", validation.step_time());
  }
  if (validation.memory().runs > 0) add("all GPUs", "peak memory", validation.memory());
  return table;
}

/// Of PyTorch's pipelines: does the prediction find the fastest plan?
Table ranking_table(const std::vector<PlanRanking>& rankings) {
  Table table{.name = "plan_rankings",
              .title = "Plans of PyTorch's pipelines, ranked by predicted and by measured step time",
              .columns = {{"model", "model", "", "", Align::left},
                          {"machine", "machine", "", "", Align::left},
                          {"plans", "plans", "", "schedules, micro-batches and chunks of the model that were measured"},
                          {"rank_correlation", "rank correlation", "", "Spearman's; 1: in the same order"},
                          {"named_measured_ms", "named", "ms", "measured step of the plan predicted to be fastest"},
                          {"best_measured_ms", "best", "ms", "the fastest measured step"},
                          {"named_to_best", "named / best"}}};
  for (const PlanRanking& ranking : rankings) {
    table.rows.push_back({ranking.model,
                          ranking.machine,
                          {std::to_string(ranking.plans), static_cast<double>(ranking.plans)},
                          cell_of(ranking.correlation, 3),
                          cell_of(ranking.named_ms, 3),
                          cell_of(ranking.best_ms, 3),
                          cell_of(ranking.named_ms / ranking.best_ms, 3)});
  }
  return table;
}

/// A series a group; host-bound runs are one of their own.
ChartFigure error_figure(const Validation& validation) {
  ChartFigure figure{.title = "Error of the predicted step time",
                     .kind = ChartKind::scatter,
                     .x_title = "measured step time (ms)",
                     .y_title = "error (%)",
                     .x_logarithmic = true};
  std::map<std::string, ChartSeries> series;
  for (const ValidatedRun& run : validation.runs) {
    ChartSeries& of_group = series[run.host_bound() ? "host-bound" : run.group];
    of_group.x.push_back(run.measured.step_time.median_ms);
    of_group.y.push_back(run.error_percent);
    of_group.labels.push_back(run.name);
  }
  for (auto& [name, of_group] : series) {
    of_group.name = name;
    figure.series.push_back(std::move(of_group));
  }
  return figure;
}

std::string runs_text(std::size_t runs) {
  return std::to_string(runs) + (runs == 1 ? " run" : " runs");
}

/// "validation: 57 runs, profile h200x4"; "validation: 57 runs of pdl-run, 8 runs of PyTorch"
std::string title_of(std::span<const Validation> programs) {
  if (programs.empty()) return "validation: no runs";
  const Validation& first = programs.front();
  std::string text = "validation: " + runs_text(first.runs.size());
  const bool named = programs.size() > 1 || first.program() == ProgramOf::pytorch;
  if (named) text += " of " + program_name(first.program());
  for (const Validation& further : programs.subspan(1))
    text += ", " + runs_text(further.runs.size()) + " of " + program_name(further.program());
  const bool several = std::any_of(programs.begin(), programs.end(), [&](const Validation& validation) {
    return several_profiles(validation) || validation.runs.front().profile_name != first.runs.front().profile_name;
  });
  return several ? text : text + ", profile " + first.runs.front().profile_name;
}

/// `suffix`: behind the names of its tables, where the document has those of another program too.
void add_tables(const Validation& validation, const std::string& suffix, bool signed_mean, Document& document) {
  const auto add = [&](Table table) {
    if (table.rows.empty()) return;
    table.name += suffix;
    document.add(std::move(table));
  };
  add(summary_table(validation, signed_mean));
  add(ranking_table(plan_rankings(validation)));
  add(run_table(validation, false));
  if (any_host_bound(validation)) add(run_table(validation, true));
  document.add(error_figure(validation));
}

}  // namespace

Document validation_document(std::span<const Validation> programs) {
  Document document{.title = title_of(programs)};
  for (const Validation& validation : programs) {
    const bool further = &validation != &programs.front();
    if (programs.size() > 1) document.add(Heading{"Programs of " + program_name(validation.program()), 2});
    const bool signed_mean = programs.size() > 1 || validation.program() == ProgramOf::pytorch;
    add_tables(validation, further ? "_" + to_string(validation.program()) : "", signed_mean, document);
  }
  WarningList predicted("run"), measured("measured run");
  for (const Validation& validation : programs) {
    for (const ValidatedRun& run : validation.runs) {
      predicted.add(run.name, run.predicted.warnings, run.predicted.warning_shares);
      measured.add(run.name, run.measured.warnings);
    }
  }
  predicted.add_to(document);
  measured.add_to(document);
  return document;
}

}  // namespace pdl
