// A sweep: every combination of the values of some settings, predicted; which is fastest, which needs least memory.
//
//   run_sweep({{"gpus", "4", "--gpus"}, {"schedule", "gpipe,1f1b", "--schedule"},
//              {"microbatches", "2:8:x2", "--microbatches"}}, ...)
//
//   row  schedule  microbatches  step time (ms)  bubble (%)  peak memory (GiB)  ...
//   -----------------------------------------------------------------------------
//     1  gpipe                2          93.021        60.2               3.39
//     2  gpipe                 4     ...
//
// A value may be a list and, where it is a number, a range:
//   4,8          each of them             2:8        2 3 4 5 6 7 8
//   2:8:2        2 4 6 8                  1024:8192:x2   1024 2048 4096 8192
// so a path with a comma in it cannot be given here. The combinations are in the order of all_settings(): its first
// word varies slowest, whatever the order on the command line.
//
// Where the GPUs vary, each row that has others to compare with has its speed-up and efficiency against the fewest of
// them (sim/study/sweep_scaling.hpp).
//
// A limit of memory also limits the search of schedule "auto".
//
// Rows are predicted by threads, and by the ranks of a group where there is one. What cannot run is a row with its
// reason, never left out. Not here: finding a configuration without trying all.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/error_bar.hpp"
#include "sim/cost/kinds_of_specs.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/study/ranks.hpp"
#include "sim/study/row_settings.hpp"

namespace pdl {

/// What a row says of a configuration that can run. Largest values are those of the GPU that has most.
struct SweepResult {
  double step_time_ms = 0;
  std::optional<ErrorBar> error_bar;  // RunResult::error_bar
  double throughput_samples_per_s = 0;
  std::optional<double> throughput_tokens_per_s;  // of models that take tokens
  std::optional<double> mfu;                      // of these, where the peak of the card is known (sim/run/metrics.hpp)
  double bubble_fraction = 0;
  double idle_fraction = 0;
  bool has_bubble = false;  // has_bubble() of the row's spec: people are shown bubble_fraction, else idle_fraction
  double exposed_communication_fraction = 0;  // of the step, averaged over the GPUs (sim/run/communication.hpp)
  std::optional<double> bound_ms;             // RunResult::bound_ms
  std::int64_t peak_memory_bytes = 0;
  std::int32_t live_activations = 0;
  std::int64_t live_activation_bytes = 0;
  bool steps_overlap = false;  // no barrier at the optimizer: its step is shorter than one with a barrier
  std::vector<std::string> warnings;
  std::map<std::string, double> warning_shares;  // RunResult::warning_shares
};

/// By what rows are compared: a step of all has the same work, or other samples, or samples of other lengths.
enum class Comparison { step_time, samples_per_s, tokens_per_s };
/// What it is of a row with that result; of a rate the negative: less is better.
double compared(const SweepResult& result, Comparison comparison);

/// What is held while the GPUs vary: the global batch, or the batch a GPU.
enum class Scaling { strong, weak };
std::string to_string(Scaling scaling);
/// Throws InputError with the place: neither "strong" nor "weak".
Scaling parse_scaling(const std::string& place, const std::string& word);

/// Against the row with the fewest GPUs that can run and does the same work (sim/study/sweep_scaling.hpp).
struct ScalingResult {
  std::size_t base_row = 0;
  double speedup = 0;     // strong: its step time / that of this row; weak: throughput of this row / its throughput
  double efficiency = 0;  // speedup / (GPUs / its GPUs)
};

struct SweepRow {
  /// A value for each word of the user that means something here, in the order of all_settings().
  RowSettings given;
  RowSettings settings;               // all of them, defaults filled in; empty if they are refused
  std::optional<SweepResult> result;  // nothing: see refusal
  std::string refusal;                // why it cannot run
  int exit_code = 0;                  // that pdl-sim would have for this configuration alone
  std::size_t series = 0;  // equal: rows that differ in their GPUs (weak scaling: and in the batch with them)
  /// Where the GPUs vary, and the row is on one GPU or has another to compare with.
  std::optional<ScalingResult> scaling;
};

struct Sweep {
  std::vector<std::string> varying;  // the words with more than one value
  std::string source;                // of the costs of all rows, in a line; empty if nothing can run
  std::optional<std::int64_t> memory_limit_bytes;
  std::optional<Scaling> scaling;  // nothing: the GPUs do not vary
  std::vector<SweepRow> rows;

  /// Within the limit of memory. A refused row is not.
  bool can_win(const SweepRow& row) const;
  /// A step of all rows has the same samples.
  bool same_samples() const;
  /// Tokens a second where samples of some rows have more tokens than those of others (--sequence 512,1024); samples a
  /// second where steps differ in samples; else the step time.
  Comparison comparison() const;
  /// Varying words of what is trained, as which no sequence counts: rows that differ in them have steps of other work.
  std::vector<std::string> words_of_other_models() const;
  /// Index of the row that is best by comparison(), whatever model it is of, with the least peak memory, of those that
  /// can win; the first of equals.
  std::optional<std::size_t> fastest() const;
  std::optional<std::size_t> least_memory() const;
  /// Rows that can win and that the error bars do not tell from the fastest: they differ by less than the root of the
  /// sum of the squares of both half widths. Errors that two rows have in common, which would cancel, count as those of
  /// each. Empty where an error bar is not known.
  std::vector<std::size_t> tied_with_fastest() const;
};

struct SweepOptions {
  std::optional<std::int64_t> memory_limit_bytes;
  std::optional<Scaling> scaling;  // nothing: strong, where the GPUs vary
  std::int64_t threads = 1;
  /// A file for the rows as they are predicted (sim/study/sweep_journal.hpp): those in it are not predicted again. It
  /// stays. Empty: none.
  std::string resume;
  /// This process is one of several that predict the sweep together (sim/study/shared_sweep.hpp); nothing: it is alone.
  std::optional<Ranks> ranks;
  std::function<void(std::size_t done, std::size_t of)> progress;  // called by the calling thread; may be empty
};

/// What run_sweep() will predict, for the choice of a profile: without the rows that are refused whatever it is. Throws
/// as run_sweep().
KindsOfSpecs kinds_of_sweep(std::span<const SettingValue> given, const SweepOptions& options);

/// The costs of all rows, as choose_costs() has it; nothing where the user gives them. Throws as that and as
/// run_sweep().
std::optional<CostProfile> costs_of_sweep(std::span<const SettingValue> given, const SweepOptions& options,
                                          const std::optional<std::string>& profile);

/// `profile`: nullptr if costs are synthetic. The same result for any number of threads and ranks, interrupted or not.
/// Throws InputError for values that no configuration could have (an unknown schedule, 0 GPUs), for more than 1,000,000
/// configurations, and as begin_scaling(), SweepJournal and SharedSweep, of which it may be rank 0; CannotRun as
/// SharedSweep.
Sweep run_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options);

/// Of a rank that is not 0: its share of the same sweep. Throws as run_sweep() and work_for_sweep().
void join_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options);

nlohmann::ordered_json sweep_json(const Sweep& sweep);
/// The same as text, as write_json() has it, row by row: of a million rows the document would not fit into memory.
void write_sweep_json(const Sweep& sweep, std::ostream& out);
/// A head, a line a row; cells with commas or quotes in quotes.
void write_sweep_csv(const Sweep& sweep, std::ostream& out);
std::string sweep_csv(const Sweep& sweep);

}  // namespace pdl
