// The settings of a run, one row each. What the command line, the JSON of a run, scenario files, sweeps, the names of
// runs and docs/settings.md know of a setting they read here.
//
//   for (const SettingRow& setting : all_settings()) add_flag("--" + setting.name, help_of(setting));
//   find_row("bucket-mb")->write(spec)      // "25"
//   is_synthetic_cost("tf")                 // true
//
// To add a setting: a field of RunSpec, and a row in the file of its theme (sim/spec/settings/). What is wrong beside
// other settings alone is a cross-check (sim/spec/cross_checks.hpp); a default that follows from other settings is in
// sim/spec/defaults.hpp; both are called by parse_run_spec.cpp, in the order in which a user is told of mistakes.
// Units are those of RunSpec. Not here: what a setting does.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The values of a setting: how JSON writes them, what a sweep takes (a list of any of them), where a table sets them.
enum class Values {
  text,            // a path, or a form of its own: mlp, orders/mine.csv, 3:20.5
  word,            // one of a few
  on_off,          // 0 or 1; on a command line the name alone means 1
  whole,           // whole numbers, of which a sweep takes ranges
  number,          // numbers of which a sweep takes lists only
  whole_by_stage,  // whole numbers, one for every stage, or a word
  cost,            // milliseconds of synthetic costs, of which a sweep takes ranges
  cost_by_stage,   // the same, or a list of one for every stage
};

/// Both ends belong to it, or all above the least. Without a largest number: what 64 bits hold.
struct Range {
  double least = 0;
  double largest = std::numeric_limits<double>::infinity();
  bool above_least = false;
};

/// When a setting is read, which decides what a user is told first: the settings of a turn after those of all turns
/// before it, in the order of the table, followed by the cross-checks of the turn (parse_run_spec.cpp).
enum class Turn {
  costs,    // synthetic costs
  gpus,     // how many, and in how many replicas
  amounts,  // batch, micro-batches, rounds
  strategy,
  schedule,
  stages,  // nothing is read: how many stages there are is known
  model,
  layers,  // nothing is read: the layers are known
  dtype,
  loss_scale,
  workers,
  transport,
  p2p,
  buckets,
  no_sync,
  sleeps,
  measurement,
  hosts,
  network,
  recompute,
  overlap,
  totals,  // nothing is read: everything is known
};

/// Why a value says nothing beside the others: "found bucket-mb 1 with strategy pp, expected no bucket-mb: ...".
struct NoMeaning {
  std::string found;
  std::string expected;
  bool rest_may_stand = true;  // without this setting: WithoutMeaning, by which a sweep leaves it out of a row
};

/// Settings and values: name, value.
using Needs = std::vector<std::pair<std::string, std::string>>;

/// Where a setting stands in the name of a run (sim/run/run_name.hpp); those of one place in the order of the table.
enum class NamePlace { strategy, gpus, model, execution, recompute, further, last };

struct SettingRow {
  std::string name = {};         // "bucket-mb", without dashes
  std::string value_name = {};   // "MIB", "fp32|tf32"
  std::string help = {};         // what it is, without its default
  std::string usual = {};        // the value where none is given, if it depends on nothing else: "25"
  std::string usual_words = {};  // the default in the words of the help, where it is more than that value
  bool usual_in_help = true;
  Values values = Values::text;
  Range range = {};  // of numbers
  Turn turn = Turn::amounts;

  /// Puts the value into the spec. Throws InputError with its place: not a number, out of range, an unknown word.
  void (*read)(const SettingValue& value, const Range& range, RunSpec& spec) = nullptr;
  /// The value as read() takes it, nothing where the spec has none (a schedule without a pipeline).
  std::optional<std::string> (*write)(const RunSpec& spec) = nullptr;
  bool written_if_usual = true;  // false: a spec's words and files have it only where it is not `usual`

  /// In which specs it means something, in words for docs/settings.md; empty: in all.
  std::string meaningful = {};
  /// Nothing where the value means something. Asked when the turn `asked` begins, before its settings are read.
  std::optional<NoMeaning> (*no_meaning)(const SettingValue& value, const RunSpec& spec) = nullptr;
  Turn asked = Turn::totals;

  /// What it adds to the name of a run: "_bucket104857600", empty for the usual value. Null: it does not tell measured
  /// runs apart (synthetic costs are never measured).
  std::string (*in_run_name)(const RunSpec& spec) = nullptr;
  NamePlace name_place = NamePlace::further;

  /// For a sweep to try a value alone: settings that it has no meaning without, with values that suit it.
  Needs (*needs)(const SettingValue& value) = nullptr;
  bool beside_synthetic_costs = true;  // false: refused there
  /// In the table of a sweep: only rows of pipelines have it. What they have where write() leaves it out; null: "-".
  bool of_pipelines = false;
  std::string (*left_out)(std::span<const SettingValue> settings_of_row) = nullptr;
};

/// In the order of help texts, of the settings of a spec, and of the columns and rows of a sweep.
std::span<const SettingRow> all_settings();

/// nullptr if there is no such setting.
const SettingRow* find_row(const std::string& name);

/// "number of layers (default 8)"
std::string help_of(const SettingRow& setting);

/// What is given in place of a profile: any of them is beside one a contradiction.
bool is_synthetic_cost(const SettingRow& setting);
/// False for what is no setting.
bool is_synthetic_cost(const std::string& name);

/// What says which model is trained, in how many layers and how wide.
bool is_of_model(const SettingRow& setting);

/// A setting whose values are numbers: its column stands to the right.
bool is_number(const SettingRow& setting);

/// True if a value may be a list: one for every stage. False for what is no setting.
bool has_value_a_stage(const std::string& name);

}  // namespace pdl
