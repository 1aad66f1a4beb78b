#include "sim/study/validate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/run_json.hpp"

namespace pdl {
namespace {

/// The profile beside the folder of a run.
std::string profile_beside(const std::string& run_path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(run_path).lexically_normal().parent_path().parent_path();
  const fs::path path = folder / "profile.json";
  if (!fs::is_regular_file(path)) {
    throw InputError(run_path, "no profile " + path.lexically_relative(fs::current_path()).string(),
                     "one in the folder above that of the run, or --profile");
  }
  return path.string();
}

/// What was measured is the step that the file's own configuration describes.
void check_is_of_its_plan(const std::string& path, const RunResult& measured, const RunResult& planned) {
  const auto differ = [&](const std::string& what, std::size_t found, std::size_t expected) {
    throw InputError(path + ": " + what, std::to_string(found), std::to_string(expected) + ", as its config has");
  };
  if (measured.microbatch_rows != planned.microbatch_rows) {
    differ("microbatch_rows", measured.microbatch_rows.size(), planned.microbatch_rows.size());
  }
  if (measured.transfer_bytes != planned.transfer_bytes) {
    differ("transfers", measured.transfer_bytes.size(), planned.transfer_bytes.size());
  }
  if (measured.timeline.spans.size() != planned.timeline.spans.size()) {
    differ("spans", measured.timeline.spans.size(), planned.timeline.spans.size());
  }
}

std::string stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

void give_names(std::vector<ValidatedRun>& runs) {
  std::map<std::pair<std::string, std::string>, int> called_so;
  for (const ValidatedRun& run : runs) ++called_so[{run.profile_name, stem(run.path)}];
  for (ValidatedRun& run : runs) {
    const std::string folder = std::filesystem::path(run.path).parent_path().filename().string();
    run.name = (called_so[{run.profile_name, stem(run.path)}] > 1 ? folder + "/" : "") + stem(run.path);
  }
}

ValidatedRun validate_run(const std::string& path, const CostProfile& profile, RunResult measured) {
  if (!measured.measured) throw InputError(path, "a predicted run", "a run measured by pdl-run");
  ValidatedRun run;
  run.path = path;
  run.profile_name = profile.name;
  try {
    run.predicted = predict(measured.spec, &profile, {.warn_where_host_bound = false});  // they have their own table
    run.host_share = *run.predicted.host_share;
  } catch (const InputError& error) {
    throw InputError(path + ": cannot be predicted: " + error.what());
  } catch (const CannotRun& error) {
    throw CannotRun(path + ": " + error.what());
  }
  check_is_of_its_plan(path, measured, run.predicted);
  const std::string other_card = other_card_text(measured.environment, profile.environment);
  if (!other_card.empty()) run.predicted.warnings.push_back(other_card);
  run.error_percent = 100 * (run.predicted.step_time.median_ms / measured.step_time.median_ms - 1);
  for (std::size_t g = 0; g < measured.peak_memory_bytes.size(); ++g) {
    const auto real = static_cast<double>(measured.peak_memory_bytes[g]);
    if (real > 0)
      run.memory_error_percent.push_back(100 * (static_cast<double>(run.predicted.peak_memory_bytes[g]) / real - 1));
  }
  run.measured = std::move(measured);
  return run;
}

double largest_by_size(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
}

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

std::string strategy_of(const ValidatedRun& run) {
  const RunSpec& spec = run.measured.spec;
  std::string text = to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  if (spec.dp > 1) text += " x dp";
  if (spec.dtype != Dtype::fp32) text += " " + to_string(spec.dtype);
  if (is_data_parallel(spec)) return text;
  return text + ", " + (spec.workers == Workers::one ? "one thread" : "transport " + to_string(spec.transport));
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
  const bool some_host_bound = any_host_bound(validation);
  const auto add_groups = [&](const std::function<std::string(const ValidatedRun&)>& group_of) {
    std::map<std::string, std::vector<double>> groups;
    for (const ValidatedRun& run : validation.runs) {
      if (!run.host_bound()) groups[group_of(run)].push_back(run.error_percent);
    }
    for (const auto& [group, errors] : groups) {
      if (groups.size() > 1) table.rows.push_back(summary_cells(group, "step time", summarize_errors(errors)));
    }
  };
  add_groups(strategy_of);
  add_groups([](const ValidatedRun& run) { return "profile " + run.profile_name; });
  if (some_host_bound) {
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

bool ValidatedRun::host_bound() const {
  return host_share > kHostBoundShare;
}

std::optional<double> ValidatedRun::worst_memory_error_percent() const {
  if (memory_error_percent.empty()) return std::nullopt;
  return largest_by_size(memory_error_percent);
}

ErrorSummary summarize_errors(std::vector<double> errors_percent) {
  ErrorSummary summary;
  summary.runs = errors_percent.size();
  if (errors_percent.empty()) return summary;
  for (double& error : errors_percent) error = std::abs(error);
  std::sort(errors_percent.begin(), errors_percent.end());
  const std::size_t middle = errors_percent.size() / 2;
  summary.mean = std::accumulate(errors_percent.begin(), errors_percent.end(), 0.0) / static_cast<double>(summary.runs);
  summary.median =
      summary.runs % 2 == 1 ? errors_percent[middle] : (errors_percent[middle - 1] + errors_percent[middle]) / 2;
  summary.max = errors_percent.back();
  return summary;
}

ErrorSummary Validation::step_time() const {
  std::vector<double> errors;
  for (const ValidatedRun& run : runs) errors.push_back(run.error_percent);
  return summarize_errors(std::move(errors));
}

ErrorSummary Validation::step_time(bool host_bound) const {
  std::vector<double> errors;
  for (const ValidatedRun& run : runs) {
    if (run.host_bound() == host_bound) errors.push_back(run.error_percent);
  }
  return summarize_errors(std::move(errors));
}

ErrorSummary Validation::memory() const {
  std::vector<double> errors;
  for (const ValidatedRun& run : runs) {
    errors.insert(errors.end(), run.memory_error_percent.begin(), run.memory_error_percent.end());
  }
  return summarize_errors(std::move(errors));
}

Validation validate_runs(const std::vector<std::string>& paths, const std::optional<std::string>& profile) {
  std::map<std::string, CostProfile> profiles;
  Validation validation;
  for (const std::string& path : paths) {
    if (std::count(paths.begin(), paths.end(), path) > 1) throw InputError(path, "the run given twice", "each once");
    RunResult measured = read_run(path);
    const std::string source = profile ? *profile : profile_beside(path);
    if (!profiles.contains(source)) profiles.emplace(source, load_profile(source));
    validation.runs.push_back(validate_run(path, profiles.at(source), std::move(measured)));
  }
  give_names(validation.runs);
  std::stable_sort(validation.runs.begin(), validation.runs.end(), [](const ValidatedRun& a, const ValidatedRun& b) {
    if (a.host_bound() != b.host_bound()) return b.host_bound();
    const double x = std::abs(a.error_percent), y = std::abs(b.error_percent);
    return x != y ? x > y : a.path < b.path;
  });
  return validation;
}

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

nlohmann::ordered_json validation_json(const Validation& validation) {
  using nlohmann::ordered_json;
  const auto summary = [](const ErrorSummary& s) -> ordered_json {
    if (s.runs == 0) return nullptr;
    return {{"values", s.runs}, {"mean_percent", s.mean}, {"median_percent", s.median}, {"max_percent", s.max}};
  };
  ordered_json out;
  out["runs"] = ordered_json::array();
  for (const ValidatedRun& run : validation.runs) {
    const StepTime& time = run.measured.step_time;
    out["runs"].push_back({{"run", stem(run.path)},
                           {"path", run.path},
                           {"profile", run.profile_name},
                           {"measured_ms", time.median_ms},
                           {"measured_p25_ms", time.p25_ms ? ordered_json(*time.p25_ms) : ordered_json()},
                           {"measured_p75_ms", time.p75_ms ? ordered_json(*time.p75_ms) : ordered_json()},
                           {"predicted_ms", run.predicted.step_time.median_ms},
                           {"error_percent", run.error_percent},
                           {"host_share", run.host_share},
                           {"host_bound", run.host_bound()},
                           {"memory_error_percent", run.memory_error_percent},
                           {"warnings", run.predicted.warnings}});
  }
  out["step_time_error"] = summary(validation.step_time());
  out["gpu_bound_step_time_error"] = summary(validation.step_time(false));
  out["host_bound_step_time_error"] = summary(validation.step_time(true));
  out["memory_error"] = summary(validation.memory());
  return out;
}

}  // namespace pdl
