#include "sim/study/validate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/statistics.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
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

std::string strategy_of(const RunSpec& spec) {
  std::string text = to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  if (spec.dp > 1) text += " x dp";
  if (spec.dtype != Dtype::fp32) text += " " + to_string(spec.dtype);
  const Program program = resolve(spec).program;
  if (is_data_parallel(program)) return text;
  return text + ", " + (program == Program::one_thread ? "one thread" : "transport " + to_string(spec.transport));
}

/// Which kernel is picked for a size that was not probed is the library's choice, and its next version may choose
/// otherwise. Empty where that is not known of the run.
std::string other_library_text(const nlohmann::json& measured, const CostProfile& profile) {
  if (!profile.products || !measured.contains("cublas") || !measured.at("cublas").is_string()) return "";
  const std::string of_run = "cuBLAS " + measured.at("cublas").get<std::string>();
  if (of_run == profile.products->library) return "";
  return "measured with " + of_run + "; profile " + profile.name + " has the kernels that " +
         profile.products->library + " picks";
}

ValidatedRun validate_run(const std::string& path, LayerFamilies& families, RunResult measured,
                          const ValidateOptions& options) {
  const CostProfile& profile = families.profile();
  if (!measured.measured) throw InputError(path, "a predicted run", "a run measured by pdl-run");
  ValidatedRun run;
  run.path = path;
  run.profile_name = profile.name;
  run.group = strategy_of(measured.spec);
  try {
    // Host-bound runs have their own table.
    run.predicted = predict(measured.spec, &profile,
                            {.warn_where_host_bound = false, .noise = options.noise, .families = &families});
    run.host_share = *run.predicted.host_share;
  } catch (const InputError& error) {
    throw InputError(path + ": cannot be predicted: " + error.what());
  } catch (const CannotRun& error) {
    throw CannotRun(path + ": " + error.what());
  }
  check_is_of_its_plan(path, measured, run.predicted);
  const std::string other_card = other_card_text(measured.environment, profile.environment);
  if (!other_card.empty()) run.predicted.warnings.push_back(other_card);
  const std::string other_library = other_library_text(measured.environment, profile);
  if (!other_library.empty()) run.predicted.warnings.push_back(other_library);
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

template <typename Counts>
ErrorSummary summarize_where(const Validation& validation, const Counts& counts) {
  std::vector<double> errors, half_widths;
  std::size_t inside = 0, drawn = 0, inside_noise = 0;
  for (const ValidatedRun& run : validation.runs) {
    if (!counts(run)) continue;
    errors.push_back(run.error_percent);
    drawn += run.predicted.noise ? 1 : 0;
    inside_noise += run.inside_noise().value_or(false) ? 1 : 0;
    if (!run.predicted.error_bar) continue;
    half_widths.push_back(run.predicted.error_bar->half_width_percent);
    inside += *run.inside() ? 1 : 0;
  }
  ErrorSummary summary = summarize_errors(std::move(errors));
  if (drawn > 0) summary.inside_noise_share = static_cast<double>(inside_noise) / static_cast<double>(drawn);
  if (half_widths.empty()) return summary;
  std::sort(half_widths.begin(), half_widths.end());
  summary.inside_share = static_cast<double>(inside) / static_cast<double>(half_widths.size());
  summary.median_half_width_percent = quantile(half_widths, 0.5);
  return summary;
}

/// `group_of` -> errors of the GPU-bound runs; nothing where all of them are of one group.
void add_groups(const Validation& validation, std::string (*group_of)(const ValidatedRun&),
                std::vector<ErrorsOfGroup>& groups) {
  std::set<std::string> names;
  for (const ValidatedRun& run : validation.runs) {
    if (!run.host_bound()) names.insert(group_of(run));
  }
  if (names.size() < 2) return;
  for (const std::string& name : names) {
    groups.push_back({name, summarize_where(validation, [&](const ValidatedRun& run) {
                        return !run.host_bound() && group_of(run) == name;
                      })});
  }
}

}  // namespace

bool ValidatedRun::host_bound() const {
  return host_share > kHostBoundShare;
}

std::optional<bool> ValidatedRun::inside_noise() const {
  if (!predicted.noise) return std::nullopt;
  const double ms = measured.step_time.median_ms;
  return predicted.noise->p10_ms <= ms && ms <= predicted.noise->p90_ms;
}

std::optional<double> ValidatedRun::worst_memory_error_percent() const {
  if (memory_error_percent.empty()) return std::nullopt;
  return largest_by_size(memory_error_percent);
}

ErrorSummary summarize_errors(std::vector<double> errors_percent) {
  ErrorSummary summary;
  summary.runs = errors_percent.size();
  if (errors_percent.empty()) return summary;
  const auto mean = [&] {
    return std::accumulate(errors_percent.begin(), errors_percent.end(), 0.0) / static_cast<double>(summary.runs);
  };
  summary.mean_signed = mean();
  for (double& error : errors_percent) error = std::abs(error);
  std::sort(errors_percent.begin(), errors_percent.end());
  summary.mean = mean();
  summary.median = quantile(errors_percent, 0.5);
  summary.max = errors_percent.back();
  return summary;
}

ErrorSummary Validation::step_time() const {
  return summarize_where(*this, [](const ValidatedRun&) { return true; });
}

ErrorSummary Validation::step_time(bool host_bound) const {
  return summarize_where(*this, [&](const ValidatedRun& run) { return run.host_bound() == host_bound; });
}

ErrorSummary Validation::step_time_where(bool probed) const {
  return summarize_where(*this, [&](const ValidatedRun& run) {
    const auto& bar = run.predicted.error_bar;
    return !run.host_bound() && bar && bar->probed() == probed;
  });
}

bool Validation::any_error_bar() const {
  return std::any_of(runs.begin(), runs.end(),
                     [](const ValidatedRun& run) { return run.predicted.error_bar.has_value(); });
}

bool Validation::any_noise() const {
  return std::any_of(runs.begin(), runs.end(), [](const ValidatedRun& run) { return run.predicted.noise.has_value(); });
}

ErrorSummary Validation::memory() const {
  std::vector<double> errors;
  for (const ValidatedRun& run : runs) {
    errors.insert(errors.end(), run.memory_error_percent.begin(), run.memory_error_percent.end());
  }
  return summarize_errors(std::move(errors));
}

std::vector<ErrorsOfGroup> Validation::step_time_by_group() const {
  std::vector<ErrorsOfGroup> groups;
  add_groups(*this, [](const ValidatedRun& run) { return run.group; }, groups);
  add_groups(*this, [](const ValidatedRun& run) { return "profile " + run.profile_name; }, groups);
  return groups;
}

Validation validate_runs(const std::vector<std::string>& paths, const std::optional<std::string>& profile,
                         const ValidateOptions& options) {
  std::map<std::string, CostProfile> profiles;
  std::map<std::string, LayerFamilies> families;  // of them
  Validation validation;
  for (const std::string& path : paths) {
    if (options.progress) options.progress(validation.runs.size());
    if (std::count(paths.begin(), paths.end(), path) > 1) throw InputError(path, "the run given twice", "each once");
    RunResult measured = read_run(path);
    const std::string source = profile ? *profile : profile_beside(path);
    if (!profiles.contains(source))
      families.try_emplace(source, profiles.emplace(source, load_profile(source)).first->second);
    validation.runs.push_back(validate_run(path, families.at(source), std::move(measured), options));
  }
  give_names(validation.runs);
  std::stable_sort(validation.runs.begin(), validation.runs.end(), [](const ValidatedRun& a, const ValidatedRun& b) {
    if (a.host_bound() != b.host_bound()) return b.host_bound();
    const double x = std::abs(a.error_percent), y = std::abs(b.error_percent);
    return x != y ? x > y : a.path < b.path;
  });
  return validation;
}

std::vector<Validation> by_program(Validation validation) {
  std::vector<Validation> programs;
  for (const ProgramOf program : {ProgramOf::pdl, ProgramOf::pytorch}) {
    Validation of_program;
    const auto others = std::stable_partition(validation.runs.begin(), validation.runs.end(),
                                              [&](const auto& run) { return run.measured.spec.program == program; });
    std::move(validation.runs.begin(), others, std::back_inserter(of_program.runs));
    validation.runs.erase(validation.runs.begin(), others);
    if (!of_program.runs.empty()) programs.push_back(std::move(of_program));
  }
  return programs;
}

}  // namespace pdl
