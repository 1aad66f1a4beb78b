// All configurations that `pdl-sim plan` has to choose among: what the user gave is fixed, the rest goes through the
// values that make sense beside what was chosen before.
//
//   configuration_space({{"gpus", "4", "--gpus"}, {"depth", "16", "--depth"}})
//
//   gpus 4   strategy pp    pp 4   schedule 1f1b         microbatches 8   recompute 0   transport copy
//                                                                                       transport nccl
//                                                                         recompute 1   ...
//                                  schedule interleaved  chunks 2  ...
//                           pp 2   ...
//            strategy ddp   microbatches 1 2 4 ...
//
// A dimension is a setting and a row of search_dimensions(): one that is added there is searched, printed and counted.
// Its values depend on those of the dimensions before it, so that hardly a configuration is refused; those that are
// keep their reason. A list or range of a dimension is the user's own choice of values; every other setting has one.
// What is trained is never chosen: model, batch, rounds of accumulation, optimizer, and the number format unless it is
// asked for (dtype any, or a list). Nor is whose program runs it, unless asked (program any, or a list).
//
// With textbook costs, which are those of a stage and a micro-batch, only what leaves their number as it is varies.
// Not here: what a configuration costs (configuration_search.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The words of a configuration so far, and what is the same in all.
struct ChosenWords {
  const std::vector<SettingValue>& words;
  std::map<std::string, std::string> fixed;  // of dimensions, chosen or not yet: those that have one value, as given
  std::int64_t layers = 0;
  std::int64_t batch = 0;
  std::int64_t rounds = 1;    // of accumulation
  bool on_cpu = false;        // of the profile
  bool synthetic = false;     // textbook costs
  bool of_pipelines = false;  // a word was given that implies strategy pp

  /// nullptr: not chosen, or left at its default.
  const std::string* find(const char* name) const;
  bool is(const char* name, const char* value) const;
  std::int64_t whole(const char* name, std::int64_t otherwise) const;
  std::int64_t gpus() const;
  std::int64_t replicas() const;  // of a pipeline: dp
  std::int64_t workers() const;   // of a pipeline: pp
};

struct SearchDimension {
  const char* name;   // of the setting
  const char* tried;  // which values, in words; empty: its default, unless they are given
  /// The values that are tried where the user gave none; "": the setting is left at its default. Null: it always is.
  std::vector<std::string> (*values)(const ChosenWords& chosen);
};

/// In the order in which they are chosen.
std::span<const SearchDimension> search_dimensions();

/// All values of dtype, or of program.
inline constexpr const char* kAny = "any";

struct Configuration {
  std::vector<SettingValue> words;  // as a command line has them, in the order of all_settings()
  std::string refusal;              // why it is none; empty: it can be planned
  int exit_code = 0;                // that pdl-sim would have for it
};

struct ConfigurationSpace {
  std::vector<SettingValue> given;  // the user's words, "any" spelled out
  std::vector<Configuration> configurations;
};

/// Throws InputError: a value that no configuration could have, a list of what is no dimension, a list of what textbook
/// costs fix, a word that has no meaning in any configuration, more than 100,000 configurations.
/// `on_cpu`: the profile is of a machine without GPUs.
ConfigurationSpace configuration_space(std::span<const SettingValue> given, bool on_cpu = false);

/// For the choice of a profile: one spec for each kind of program, transport and number format.
std::vector<RunSpec> kinds_of_configurations(const ConfigurationSpace& space);

}  // namespace pdl
