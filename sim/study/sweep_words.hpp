// Which words tell the rows of a sweep apart, and what each row says of a word.
//
//   --strategy single,ddp --gpus 1     strategy single | ddp, transport copy | nccl, workers thread | process, ...
//
// A word counts whether it was given or has its value by default.
#pragma once

#include <string>
#include <vector>

#include "sim/study/sweep.hpp"

namespace pdl {

/// What was given, else what the row's settings have, else "-": the row has no such word (ddp has no schedule), or was
/// refused before it had it.
std::string word_of(const SweepRow& row, const std::string& name);

/// The words with more than one value, in the order of all_settings(): those that were varied, and those whose value
/// differs between rows, refused ones left aside.
std::vector<std::string> differing_words(const Sweep& sweep);

/// The words that were given in any row, in that order.
std::vector<std::string> given_words(const Sweep& sweep);

}  // namespace pdl
