// The words that a user gave for a spec, by name, each with its place for messages.
//
//   const Given given = collect(words);               {"gpus", "5", "--gpus"} and so on
//   find(given, "dp")                                 nullptr: it was not given
//   place_of(given, {"chunks", "schedule", "gpus"})   "--gpus"
//
// What parse_run_spec is made of; a sweep, which has lists of values, asks check_known() alone.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>

#include "sim/spec/run_spec.hpp"

namespace pdl::setting_words {

using Given = std::map<std::string, SettingValue>;

/// Throws InputError if there is no such setting, with the nearest that there is.
void check_known(const SettingValue& setting);

/// Throws InputError: an unknown word, a word given twice.
Given collect(std::span<const SettingValue> values);

/// nullptr if it was not given.
const SettingValue* find(const Given& given, const std::string& name);

/// The place of the first of these words that was given; where none was, the first word itself. For refusals of values
/// that may come from any of several words, or from a default.
std::string place_of(const Given& given, std::initializer_list<const char*> names);

}  // namespace pdl::setting_words
