// The configurations with the least step time under a limit of memory, of all in a space; and why the others lost.
//
//   const ConfigurationSpace space = configuration_space(words);                  // gpus 4, depth 16
//   const ConfigurationSearch found = search_configurations(space, &profile, {.memory_limit_bytes = 20LL << 30});
//   found.rows[found.best[0]].step->step_time_ms
//
// Without trying all of them:
//
//   1. every configuration is parsed: what is refused there has lost;
//   2. of each the least memory and the least step time are known before its plan is made (sim/predict/step_bound.hpp);
//      their pieces are priced once for all;
//   3. the rest is taken in the order of that least step time, 8 at a time. Where there are replicas the step of the
//      first one alone is looked at (bound_of_first_replica), which may put the configuration further back; else it is
//      predicted, the memory before the prices. This ends when the next one could not be among the best;
//   4. the best are predicted again, with their error bars and warnings.
//
//   least step time   31 33 33 34 | 35 40 52 ...      ten best so far: up to 34.8 ms: the rest has lost
//                     predicted   | not predicted
//
// So the best are those of an exhaustive search (a property test), and the same for any number of threads, as what is
// decided together does not depend on it. Of equal step times the one that comes first in the space is the better one.
//
// Ranked by the predicted median. Not here: how a step is predicted (sim/predict), how it is shown (sim/report).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/error_bar.hpp"
#include "sim/predict/step_bound.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_result.hpp"
#include "sim/study/configuration_space.hpp"

namespace pdl {

/// Why a configuration is not among the best.
///   refused        it cannot be planned, priced or run
///   memory         a GPU needs more than it may
///   compute        its forwards, backwards and optimizer take longer: smaller products, recomputation, other kernels,
///                  unequal stages
///   bubble         its GPUs wait longer for each other
///   communication  more of its transfers and collectives is exposed
///   host           it is bound by the host that issues it
/// Where several do, the one that has grown most against the best configuration.
enum class Drawback : std::uint8_t { none, refused, memory, compute, bubble, communication, host };
inline constexpr std::size_t kLosses = 7;
const char* to_string(Drawback loss);

/// "pdl-sim --gpus 4 --schedule 1f1b"
std::string command_line(const std::string& program, const std::vector<SettingValue>& words);

/// What is kept of a prediction. Means are over the GPUs.
struct SearchedStep {
  double step_time_ms = 0;
  std::optional<ErrorBar> error_bar;  // of the best alone
  bool has_bubble = false;            // of the spec: people are shown bubble_fraction, else idle_fraction
  double bubble_fraction = 0;
  double idle_fraction = 0;
  double exposed_communication_fraction = 0;
  double busy_ms = 0;  // mean
  double idle_ms = 0;
  double host_share = 0;  // of the usual host, at fixed rates: what one that took no time would save
  std::int64_t peak_memory_bytes = 0;
  bool steps_overlap = false;
  std::vector<std::string> warnings;  // of the best alone
  std::map<std::string, double> warning_shares;
};

struct SearchRow {
  std::vector<SettingValue> words;     // of the command line
  std::vector<SettingValue> settings;  // all of them, defaults filled in; empty if they are refused
  bool has_replicas = false;
  bool has_order = false;  // schedule "auto" finds it in the prediction
  StepBound bound;
  std::optional<ReplicaBound> replica;              // where there are replicas, and it was needed
  std::int64_t least_memory_bytes = 0;              // at least so much; 0: not known
  std::optional<std::int64_t> needed_memory_bytes;  // of the GPU that needs most, where it was reckoned
  std::optional<SearchedStep> step;                 // where it was predicted
  std::string source;                               // of its costs, in a line, where it was predicted
  std::string found_split;                          // of split "auto", where it was predicted
  std::string refusal;
  int exit_code = 0;
  Drawback loss = Drawback::none;    // none: it is one of the best
  Drawback behind = Drawback::none;  // of what was predicted, but the first: what has grown most against the first
};

/// A measured run of a configuration, on GPUs of the profile's kind.
struct MeasuredStepTime {
  double step_time_ms = 0;
  std::string folder;  // "h200x4/runs"
};

/// Where the steps of the best two go, and what each would take without each of its costs.
struct ExplainedStep {
  std::shared_ptr<const RunResult> run;
  Explanation explanation;
};
struct BestTwo {
  ExplainedStep first, second;
};

struct ConfigurationSearch {
  ConfigurationSpace space;
  std::vector<SearchRow> rows;  // of the space, in its order
  std::string source;           // of the costs, in a line; empty if nothing can run
  std::optional<std::int64_t> memory_limit_bytes;
  bool limit_is_capacity = false;                         // of the profile's GPU: nobody gave one
  bool on_cpu = false;                                    // the profile is of a machine without GPUs
  bool synthetic = false;                                 // textbook costs
  std::int64_t priced_pieces = 0;                         // for the bounds
  std::vector<std::size_t> best;                          // rows, the least step time first
  std::vector<std::optional<MeasuredStepTime>> measured;  // of the best
  std::optional<BestTwo> best_two;                        // where there are two
  std::optional<std::size_t> least_memory;                // where nothing fits: the row that needs least
  /// The row with the least step time of those that need more memory than they may, if it would win.
  std::optional<std::size_t> faster_with_more_memory;

  /// Of the best, those that the error bars do not tell from the first: they differ by less than the root of the sum of
  /// the squares of both half widths, as in a sweep.
  std::vector<std::size_t> tied_with_first() const;
  /// Of the best with that rank, from 0: "fastest", "tie" (of the first and of those that are tied with it), or "".
  const char* verdict(std::size_t rank) const;
  /// Why there is no best one, with the row that comes nearest; "" where there is one. For an error message, which is
  /// an InputError where is_input_error().
  std::string nothing_fits() const;
  bool is_input_error() const;
  std::size_t count(Drawback loss) const;
  std::size_t predicted() const;
};

struct SearchOptions {
  /// Default: what the profile's GPU has; no limit if that is not known, or if costs are synthetic.
  std::optional<std::int64_t> memory_limit_bytes;
  std::size_t best = 10;
  std::int64_t threads = 1;
  /// Every configuration is predicted, whatever its bounds: what the search is tested against.
  bool exhaustive = false;
  /// Called by the calling thread: so many are decided.
  std::function<void(std::size_t decided, std::size_t of)> progress;
};

/// What all of a space are predicted by, as choose_costs() says it; nothing where costs are synthetic. By a profile of
/// a machine without GPUs the space is made anew: it has other transports. Throws as choose_costs().
std::optional<CostProfile> costs_of_space(ConfigurationSpace& space, const std::optional<std::string>& profile);

/// `profile`: nullptr if costs are synthetic. Throws InputError if a file of measured runs holds another run than its
/// name says.
ConfigurationSearch search_configurations(const ConfigurationSpace& space, const CostProfile* profile,
                                          const SearchOptions& options);

}  // namespace pdl
