// pdl as a library: how long a training step takes on several GPUs, from settings in words. All of it is in this
// header; it needs the C++ standard library alone.
//
//   #include <pdl/pdl.hpp>
//
//   const pdl::Prediction step = pdl::predict({{"gpus", "5"}, {"depth", "20"}, {"schedule", "gpipe"}});
//   step.step_time_ms, step.bubble_fraction, step.gpus[0].peak_memory_bytes
//
//   for (const pdl::PredictedRow& row : pdl::predict_all({{"gpus", "1,2,4"}, {"schedule", "gpipe,1f1b"}}).rows)
//     row.settings, row.step_time_ms
//
//   pdl::plan({{"gpus", "4"}, {"depth", "16"}}, {.memory = "20GiB"}).best[0].settings     // the fastest
//
// With CMake, after `cmake --install`:
//
//   find_package(pdl REQUIRED)
//   target_link_libraries(mine PRIVATE pdl::pdl)
//
// The words are those of pdl-sim's command line without the dashes; known_settings() lists them. Predictions are those
// of pdl-sim, to the byte of their JSON. Errors: InputError, CannotRun (sim/io/error.hpp), which name the word or the
// file, what was found and what was expected. All functions may be called from several threads at once, but for
// set_files_folder(). Units are in the names; times are those of one optimizer step. Not here: measured runs, tables
// for people, scenarios (pdl-sim has them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/error.hpp"

namespace pdl {

struct RunResult;

/// One word: {"gpus", "5"}; a value a stage is {"tf", "1,1,2,1"}, a switch {"recompute", "1"}.
struct Setting {
  std::string name;
  std::string value;
};
using Settings = std::vector<Setting>;

struct PredictionOptions {
  /// The costs: the name of a profile (known_profiles()), or the path of a profile.json. Default, empty: the largest
  /// host among them that has measured what the settings need. Must be empty where settings give costs (tf, tb).
  std::string profile = "";
  /// The most that a GPU may need: "40GiB", "80GB", "1000000" (bytes). A run that needs more is refused, and schedule
  /// "auto" is searched among the orders that need no more. Default, empty: what the profile's card has.
  std::string memory = "";
};

/// A number of messages, and their bytes in all, in one step.
struct Traffic {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// What one GPU does in a step: busy_ms + communication_ms + idle_ms is the step.
struct GpuPrediction {
  std::int64_t layers = 0;
  double busy_ms = 0;                      // at a task of computation, waits for a slow host inside
  double communication_ms = 0;             // a transfer or collective runs, and no task of computation
  double idle_ms = 0;                      // neither
  double bubble_fraction = 0;              // 1 - forward and backward / step
  std::int64_t peak_memory_bytes = 0;      // as PyTorch's max_memory_allocated
  std::int32_t live_activations = 0;       // most pairs of a stage and a micro-batch that are kept for a backward
  std::int64_t live_activation_bytes = 0;  // their size
};

/// Every task of a step, a row each: columns of equal length.
struct SpanColumns {
  std::vector<std::string> name;         // "F0": forward of micro-batch 0; "1F0" where the GPU holds several stages
  std::vector<std::string> kind;         // "forward", "backward", "optimizer", "send_forward", "all_reduce", ...
  std::vector<std::int32_t> worker;      // the GPU, from 0
  std::vector<std::int32_t> stage;       // from 0
  std::vector<std::int32_t> microbatch;  // from 0; -1: of all
  std::vector<std::string> stream;       // "compute", "send forward", ...
  std::vector<double> start_us;          // microseconds from the start of the step
  std::vector<double> end_us;
};

struct Prediction {
  Settings settings;        // as in the JSON's `config`: some only where they are not the default
  std::string profile;      // name of the profile; empty: the settings give the costs
  double step_time_ms = 0;  // of one optimizer step
  /// 90 % of measured steps lie within step_time_ms +- this. None: not known, such as of given costs.
  std::optional<double> half_width_90_ms;
  std::optional<double> unprobed_share;  // of the work, in 0..1, that no probe measured; none: not known
  std::string probe_command;  // where that is much, the command line of pdl-calibrate that has it probed; else empty
  std::optional<double> bound_ms;       // the same order with its compute costs alone: no transfers, host, optimizer
  double throughput_samples_per_s = 0;  // samples of a step / step time
  double bubble_fraction = 0;           // 1 - forward and backward / (GPUs x step)
  double idle_fraction = 0;             // idle time / (GPUs x step)
  std::optional<double> host_share;     // of the step that a host which took no time would save; none: given costs
  std::int64_t parameters = 0;          // of the model
  std::int64_t peak_memory_bytes = 0;   // of the GPU that needs most
  Traffic transfers;                    // between GPUs, one a message
  Traffic collectives;                  // one each, however many GPUs take part
  std::vector<GpuPrediction> gpus;
  std::vector<std::string> warnings;  // what was not measured and how it was estimated, and other doubts

  SpanColumns spans() const;
  /// What `pdl-sim --json -` prints, units in the keys: docs/formats-run.md.
  std::string json() const;

  std::shared_ptr<const RunResult> run;  // what the two functions read
};

/// Throws InputError: an unknown word (with the nearest known one), a value out of range, words that contradict each
/// other, a profile that is not there, or that lacks what the settings need. CannotRun: a deadlock, more memory than
/// there is.
Prediction predict(const Settings& settings, const PredictionOptions& options = {});

struct TableOptions {
  std::string profile = "";  // as PredictionOptions::profile, one for all rows
  std::string memory = "";   // "40GiB": rows that need more are marked, not refused; limits the search of "auto"
  std::string scaling = "";  // where the GPUs vary, "strong" (the default): the batch is held; "weak": that of a GPU is
  std::int64_t threads = 0;  // rows at a time; 0, the default: one a core. The result is the same for any
};

/// One combination. Where `refused` is not empty, the numbers are those of nothing.
struct PredictedRow {
  Settings settings;
  std::string refused;  // why it cannot run; empty: it can
  double step_time_ms = 0;
  std::optional<double> half_width_90_ms, unprobed_share;  // as Prediction has them
  std::optional<double> bound_ms;
  double throughput_samples_per_s = 0;
  /// Against the row with the fewest GPUs that does the same work: its step time / this one's (weak scaling: this
  /// throughput / its throughput); and that over the number of times as many GPUs.
  std::optional<double> speedup, efficiency;
  double exposed_communication_fraction = 0;  // of the step, a mean over the GPUs
  double bubble_fraction = 0;
  double idle_fraction = 0;
  std::int64_t peak_memory_bytes = 0;
  std::int32_t live_activations = 0;
  std::int64_t live_activation_bytes = 0;
  bool steps_overlap = false;        // no barrier at the optimizer: shorter than a step with one
  bool within_memory_limit = false;  // false of refused rows, too
  std::vector<std::string> warnings;
};

struct PredictedTable {
  std::vector<std::string> varying;  // the words with several values
  std::vector<PredictedRow> rows;    // the first word of known_settings() varies slowest
  /// Rows with the least step time (where steps differ in samples: the most samples a second), and the least peak
  /// memory, of those within the limit of memory; nothing where there is none.
  std::optional<std::size_t> fastest, least_memory;
};

/// Every combination (pdl-sim sweep). A value may be a list ("4,8") and, if it is a number, a range ("2:8",
/// "1024:8192:x2"); in a list the times of stages are written with slashes ("1/1/2/1,2/2/1/1"). What cannot run is a
/// row with its reason. Throws InputError for values that no configuration could have, and for more than 100,000 rows.
PredictedTable predict_all(const Settings& settings, const TableOptions& options = {});

struct PlanOptions {
  std::string profile = "";  // as PredictionOptions::profile, one for all configurations
  std::string memory = "";   // "40GiB": the most that a GPU may need. Default, empty: what the profile's card has
  std::int64_t best = 10;    // so many are listed, at least 1
  std::int64_t threads = 0;  // configurations at a time; 0, the default: one a core. The result is the same for any
};

/// One of the best configurations.
struct PlannedConfiguration {
  Settings settings;    // as Prediction::settings
  std::string verdict;  // "fastest"; "tie": the error bars do not tell it from the fastest; "": neither
  double step_time_ms = 0;
  std::optional<double> half_width_90_ms, unprobed_share;  // as Prediction has them
  double bubble_fraction = 0;
  double idle_fraction = 0;
  double exposed_communication_fraction = 0;
  std::int64_t peak_memory_bytes = 0;
  bool steps_overlap = false;
  std::optional<double>
      measured_ms;        // median of a measured run of it, on GPUs of the profile's kind; none: not measured
  std::string behind_by;  // what has grown most against the fastest: "compute", "bubble", "communication",
                          // "host"; "none" of the fastest
  std::vector<std::string> warnings;  // what was not measured and how it was estimated, and other doubts
};

/// What a configuration needs beyond the limit of memory, and would then take.
struct WithMoreMemory {
  Settings settings;
  std::int64_t peak_memory_bytes = 0;
  double step_time_ms = 0;
};

struct PlannedTable {
  std::vector<PlannedConfiguration> best;  // the least step time first
  std::string profile;                     // name of the profile; empty: the settings give the costs
  std::optional<std::int64_t> memory_limit_bytes;
  std::size_t configurations = 0;  // searched
  std::size_t predicted = 0;       // the others were decided by what they take, or need, at least
  /// How many are not among the best, by what they have lost by: refused, memory, compute, bubble, communication, host.
  std::vector<std::pair<std::string, std::size_t>> lost;
  std::optional<WithMoreMemory> faster_with_more_memory;  // the fastest that needs more, if it would win
};

/// The configurations with the least step time (pdl-sim plan): what is given is fixed, of some settings to a list or
/// range; strategy, mesh, schedule, micro-batches and so on are searched. Throws as predict(); InputError and CannotRun
/// where no configuration can run or fits, with what comes nearest.
PlannedTable plan(const Settings& settings, const PlanOptions& options = {});

/// A machine that was measured.
struct KnownProfile {
  std::string name;
  std::string path;
  std::string device;  // "cuda" or "cpu"
  std::string card;
  std::int64_t count = 0;  // of cards
  std::string measured;    // date and time, UTC
  std::string error;       // why it cannot be read; empty: it can
};
/// Those that came with the library, and before them those of the folder $PDL_DATA (NAME/profile.json). By name.
std::vector<KnownProfile> known_profiles();

/// A word that settings may have.
struct KnownSetting {
  std::string name;
  std::string values;  // "N", "sgd|adam"
  std::string help;
};
std::vector<KnownSetting> known_settings();

/// "0.1"
std::string version();

/// Where data/ and scenarios/ of the library are, for programs that have moved them; before the first prediction. A
/// program that found the library by find_package knows those of the installation.
void set_files_folder(const std::string& folder);

#ifdef PDL_FILES_FOLDER  // pdlConfig.cmake says it, of the installation that it is in
inline const bool files_folder_is_set = (set_files_folder(PDL_FILES_FOLDER), true);
#endif

}  // namespace pdl
