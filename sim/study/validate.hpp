// Measured runs against predictions of the same configurations: how far off the simulator is.
//
//   Validation validation = validate_runs({"data/h200x2/runs/mp_gpus2_....json"}, std::nullopt);
//   validation.step_time()      runs 1, mean 0.1, median 0.1, max 0.1 per cent
//
// error = (predicted - measured median) / measured median. Worst first. A run is predicted from its settings and a
// profile alone: nothing that was measured in the run enters.
//
// Runs of pdl-run's programs and of PyTorch's are validated apart, by_program(): no summary has both. Of PyTorch's
// pipelines it is also said how well predictions tell which plan is the fastest (sim/study/plan_ranking.hpp).
//
// Host-bound runs (sim/predict/host_bound.hpp: what the prediction says, not what was measured) are counted apart:
// their time depends on a processor and on what else it does. Predictions with an error bar are summarized apart where
// they rest on probes (ErrorBar::probed()) and where not: how many measured medians lie inside is how good the bars
// are; 90 % should. Tables: sim/report/validation_document.hpp.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/predict/noise.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct ValidatedRun {
  std::string path;
  std::string name;  // in tables: of the file, and of its folder too where two runs of one profile are called the same
  std::string profile_name;
  std::string group;  // by strategy: "pp 1f1b, transport copy"
  RunResult measured;
  RunResult predicted;
  double error_percent = 0;                  // of the step time
  double host_share = 0;                     // of the predicted step (sim/predict/host_bound.hpp)
  std::vector<double> memory_error_percent;  // one a GPU; empty if the run does not say its memory

  /// Does the measured median lie within the error bar of the prediction? Nothing where it has none.
  std::optional<bool> inside() const { return lies_inside(predicted, measured); }
  /// Does it lie from p10 to p90 of the drawn steps? Nothing where none were drawn.
  std::optional<bool> inside_noise() const;
  /// The one with the largest absolute value.
  std::optional<double> worst_memory_error_percent() const;
  bool host_bound() const;
};

/// Of absolute values, in per cent, but for `mean_signed`: above 0 where predictions are too long.
struct ErrorSummary {
  std::size_t runs = 0;
  double mean = 0;
  double mean_signed = 0;
  double median = 0;
  double max = 0;
  /// Of step times whose predictions have error bars: the share of measured medians that lie inside, in 0..1, and the
  /// median half width of the bars. Nothing where there is none.
  std::optional<double> inside_share, median_half_width_percent;
  /// Where steps were drawn: the share of measured medians from p10 to p90 of them, in 0..1; it should be 0.8.
  std::optional<double> inside_noise_share;
};
ErrorSummary summarize_errors(std::vector<double> errors_percent);

struct ErrorsOfGroup {
  std::string group;  // "pp 1f1b, transport copy"; "profile h100x4"
  ErrorSummary errors;
};

struct Validation {
  /// The GPU-bound ones, then the host-bound ones; of each the worst error first.
  std::vector<ValidatedRun> runs;

  ProgramOf program() const { return runs.front().measured.spec.program; }  // of all runs, where it is the same
  ErrorSummary step_time() const;                                           // of all runs
  ErrorSummary step_time(bool host_bound) const;
  /// Of the GPU-bound ones whose predictions have error bars: those that rest on probes, and the others.
  ErrorSummary step_time_where(bool probed) const;
  bool any_error_bar() const;
  bool any_noise() const;
  /// Of the GPU-bound ones: by strategy, then by profile, where there are several of them.
  std::vector<ErrorsOfGroup> step_time_by_group() const;
  ErrorSummary memory() const;  // over all GPUs of all runs that say it
};

/// One for each program that the runs are of, pdl-run's first.
std::vector<Validation> by_program(Validation validation);

struct ValidateOptions {
  std::optional<NoiseOptions> noise;               // default: no steps are drawn
  std::function<void(std::size_t done)> progress;  // called before each run, with how many are done; may be empty
};

/// `profile`: a name or path for all runs; nothing: profile.json in the parent folder of each run's folder
/// (data/<machine>/runs/x.json -> data/<machine>/profile.json). Throws InputError: a run that cannot be read or is not
/// measured, no profile there; what predict() throws, with the run's path.
Validation validate_runs(const std::vector<std::string>& paths, const std::optional<std::string>& profile,
                         const ValidateOptions& options = {});

/// `programs`: by_program(). "runs" of all; "programs": the summaries of each, and
/// of one program alone these summaries beside "runs" too.
nlohmann::ordered_json validation_json(std::span<const Validation> programs);
inline nlohmann::ordered_json validation_json(const Validation& of_one_program) {
  return validation_json(std::span(&of_one_program, 1));
}

}  // namespace pdl
