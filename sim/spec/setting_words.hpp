// What reading a spec's words is made of: the words of each enumeration, the words that a user gave. Internal to
// sim/spec: the parsers of run_spec.cpp and data_parallel_words.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl::setting_words {

inline constexpr std::int64_t kMillion = 1'000'000;
/// Of accumulation: each round is planned by itself (a million of them took minutes and 7.5 GB).
inline constexpr std::int64_t kMostRounds = 10'000;

template <typename Enum>
struct Word {
  Enum value;
  const char* text;
};
template <typename Enum>
Word(Enum, const char*) -> Word<Enum>;  // clang 14 does not make this guide by itself
inline constexpr std::array kStrategies = {Word{Strategy::single, "single"}, Word{Strategy::mp, "mp"},
                                           Word{Strategy::pp, "pp"}, Word{Strategy::dp, "dp"},
                                           Word{Strategy::ddp, "ddp"}};
inline constexpr std::array kDtypes = {Word{Dtype::fp32, "fp32"}, Word{Dtype::tf32, "tf32"},
                                       Word{Dtype::amp_fp16, "amp-fp16"}, Word{Dtype::amp_bf16, "amp-bf16"}};
inline constexpr std::array kOptimizers = {Word{Optimizer::sgd, "sgd"}, Word{Optimizer::adam, "adam"}};
inline constexpr std::array kTransports = {Word{Transport::copy, "copy"}, Word{Transport::nccl, "nccl"},
                                           Word{Transport::gloo, "gloo"}};
inline constexpr std::array kPointToPoint = {Word{PointToPoint::eager, "eager"},
                                             Word{PointToPoint::rendezvous, "rendezvous"}};
inline constexpr std::array kWorkers = {Word{Workers::process, "process"}, Word{Workers::thread, "thread"},
                                        Word{Workers::one, "one"}};

template <typename Enum, std::size_t N>
std::string text_of(const std::array<Word<Enum>, N>& words, Enum value) {
  return std::find_if(words.begin(), words.end(), [&](const auto& word) { return word.value == value; })->text;
}

/// "--strategy: found tp, expected single, mp, pp, dp or ddp (tensor parallelism is not modelled yet)", or with the
/// known word that it is a slip of.
[[noreturn]] void refuse_word(const SettingValue& setting, std::span<const std::string> known,
                              std::string_view meant = {});

template <typename Enum, std::size_t N>
Enum parse_word(const std::array<Word<Enum>, N>& words, const SettingValue& setting) {
  std::vector<std::string> known;
  for (const auto& word : words) {
    if (word.text == setting.value) return word.value;
    known.push_back(word.text);
  }
  refuse_word(setting, known);
}

/// The words given, by name.
using Given = std::map<std::string, SettingValue>;

/// Throws InputError: an unknown word, a word given twice.
Given collect(std::span<const SettingValue> values);

/// nullptr if it was not given.
const SettingValue* find(const Given& given, const char* name);

/// The place of the first of these words that was given; where none was, the first word itself. For refusals of values
/// that may come from any of several words, or from a default.
std::string place_of(const Given& given, std::initializer_list<const char*> names);

/// A whole number from 1 on, if it was given.
void read_whole(const Given& given, const char* name, std::int64_t& into, std::int64_t largest);

/// Throws WithoutMeaning if the word is given and `fits` is false.
void only_with(const Given& given, const char* name, bool fits, const std::string& with);

}  // namespace pdl::setting_words
