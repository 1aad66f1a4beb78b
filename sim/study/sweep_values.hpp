// The values that a sweep goes through: lists and ranges of settings, and every combination of them.
//
//   expand_setting({"gpus", "2:8:x2", "--gpus"})     gpus 2, gpus 4, gpus 8
//   expand_setting({"tf", "1/1/2,2/2/1", "--tf"})    tf 1/1/2, tf 2/2/1: times of stages have slashes here
//   combine_settings({gpus 1,2; schedule gpipe,1f1b})  (1, gpipe) (1, 1f1b) (2, gpipe) (2, 1f1b)
//
// The words are those of the command line (sim/spec/run_spec.hpp). Not here: what becomes of a combination (sweep.hpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The values of a list or range. Throws InputError: an empty one, a value twice ("25,25.0"), a range from more to
/// less.
std::vector<SettingValue> expand_setting(const SettingValue& given);

/// Throws InputError for a value that is wrong whatever is given beside it (an unknown schedule, 0 GPUs).
void check_alone(const SettingValue& value);

struct Combinations {
  std::vector<std::string> varying;  // the words with more than one value
  std::vector<std::vector<SettingValue>>
      rows;  // one value for each word that means something in the row, in the order of all_settings()
};

/// The first word of all_settings() varies slowest. A word is left out of rows in which it has no meaning
/// (WithoutMeaning: buckets without ddp, a network on one host), so that they can stand beside others; rows that are
/// then the same are one. Throws InputError for values that no configuration could have (an unknown schedule, 0 GPUs),
/// for a word that has no meaning in any row, and for more than 100,000 combinations.
Combinations combine_settings(std::span<const SettingValue> given);

}  // namespace pdl
