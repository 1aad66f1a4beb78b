#include "sim/report/validation_text.hpp"

#include <algorithm>

#include "sim/io/number_text.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"

namespace pdl {
namespace {

bool several_profiles(const Validation& validation) {
  return std::any_of(validation.runs.begin(), validation.runs.end(),
                     [&](const ValidatedRun& run) { return run.profile_name != validation.runs.front().profile_name; });
}

bool any_host_bound(const Validation& validation) {
  return std::any_of(validation.runs.begin(), validation.runs.end(),
                     [](const ValidatedRun& run) { return run.host_bound(); });
}

/// Of the runs that the host bounds, or of the others.
TextTable run_table(const Validation& validation, bool host_bound) {
  TextTable table{{{"run", "", Align::left},
                   {"measured", "ms"},
                   {"p25..p75", "ms"},
                   {"predicted", "ms"},
                   {"error", "%"},
                   {"memory error", "%"}},
                  {}};
  if (host_bound) table.columns.insert(table.columns.end(), {{"host", "% of step"}, {"p25 to p75", "% of median"}});
  if (several_profiles(validation)) table.columns.insert(table.columns.begin(), {"profile", "", Align::left});
  for (const ValidatedRun& run : validation.runs) {
    if (run.host_bound() != host_bound) continue;
    const StepTime& time = run.measured.step_time;
    const bool spread = time.p25_ms && time.p75_ms;
    const std::optional<double> memory = run.worst_memory_error_percent();
    std::vector<std::string> cells = {run.name,
                                      fixed(time.median_ms, 3),
                                      spread ? fixed(*time.p25_ms, 3) + ".." + fixed(*time.p75_ms, 3) : "-",
                                      fixed(run.predicted.step_time.median_ms, 3),
                                      signed_fixed(run.error_percent, 2),
                                      memory ? signed_fixed(*memory, 2) : "-"};
    if (host_bound) {
      cells.push_back(fixed(100 * run.host_share, 0));
      cells.push_back(spread ? fixed(100 * (*time.p75_ms - *time.p25_ms) / time.median_ms, 1) : "-");
    }
    if (several_profiles(validation)) cells.insert(cells.begin(), run.profile_name);
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<std::string> summary_cells(const std::string& group, const std::string& what, const ErrorSummary& summary) {
  return {group,
          what,
          std::to_string(summary.runs),
          fixed(summary.mean, 2),
          fixed(summary.median, 2),
          fixed(summary.max, 2)};
}

TextTable summary_table(const Validation& validation) {
  TextTable table{{{"group", "", Align::left},
                   {"error of", "", Align::left},
                   {"values", ""},
                   {"mean", "%"},
                   {"median", "%"},
                   {"max", "%"}},
                  {}};
  for (const ErrorsOfGroup& group : validation.step_time_by_group())
    table.rows.push_back(summary_cells(group.group, "step time", group.errors));
  if (any_host_bound(validation)) {
    table.rows.push_back(summary_cells("all that GPUs bound", "step time", validation.step_time(false)));
    table.rows.push_back(summary_cells("all that the host bounds", "step time", validation.step_time(true)));
  } else {
    table.rows.push_back(summary_cells("all runs", "step time", validation.step_time()));
  }
  if (validation.memory().runs > 0) table.rows.push_back(summary_cells("all GPUs", "peak memory", validation.memory()));
  return table;
}

std::string warnings_text(const Validation& validation) {
  WarningList predicted, measured;
  for (const ValidatedRun& run : validation.runs) {
    predicted.add(run.name, run.predicted.warnings);
    measured.add(run.name + ", measured", run.measured.warnings);
  }
  const std::string text = predicted.text(120) + measured.text(120);
  return text.empty() ? "" : "\n" + text;
}

std::string legend() {
  return "error: (predicted - measured median) / measured median; memory error: of the peak memory, that GPU of the "
         "run\n"
         "where it is largest. Below: mean, median and maximum of the absolute errors.\n";
}

}  // namespace

std::string validation_text(const Validation& validation) {
  const std::string host_bound =
      any_host_bound(validation)
          ? "\nbound by the host, which issues the work (without it the predicted step would be more than " +
                percent(kHostBoundShare) + " shorter):\n\n" + to_text(run_table(validation, true))
          : "";
  const TextTable others = run_table(validation, false);
  return (others.rows.empty() ? "" : to_text(others)) + host_bound + "\n" + legend() + "\n" +
         to_text(summary_table(validation)) + warnings_text(validation);
}

std::string validation_markdown(const Validation& validation) {
  const TextTable others = run_table(validation, false);
  return to_markdown(summary_table(validation)) + (others.rows.empty() ? "" : "\n" + to_markdown(others)) +
         (any_host_bound(validation) ? "\n" + to_markdown(run_table(validation, true)) : "");
}

}  // namespace pdl
