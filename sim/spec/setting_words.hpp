// The words of each enumeration of a spec, and what is said of a word that is none of them.
//
//   parse_word(kDtypes, {"dtype", "tf32", "--dtype"})   Dtype::tf32
//   any_of(kOptimizers)                                 "sgd|adam"
//
// Internal to sim/spec: the rows of the table of settings.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl::setting_words {

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
inline constexpr std::array kOptimizers = {Word{Optimizer::sgd, "sgd"}, Word{Optimizer::adam, "adam"},
                                           Word{Optimizer::adamw, "adamw"},
                                           Word{Optimizer::adamw_fused, "adamw-fused"}};
inline constexpr std::array kTransports = {Word{Transport::copy, "copy"}, Word{Transport::nccl, "nccl"},
                                           Word{Transport::gloo, "gloo"}};
inline constexpr std::array kPointToPoint = {Word{PointToPoint::eager, "eager"},
                                             Word{PointToPoint::rendezvous, "rendezvous"}};
inline constexpr std::array kWorkers = {Word{Workers::process, "process"}, Word{Workers::thread, "thread"},
                                        Word{Workers::one, "one"}};
inline constexpr std::array kProgramsOf = {Word{ProgramOf::pdl, "pdl"}, Word{ProgramOf::pytorch, "pytorch"}};

template <typename Enum, std::size_t N>
std::string text_of(const std::array<Word<Enum>, N>& words, Enum value) {
  return std::find_if(words.begin(), words.end(), [&](const auto& word) { return word.value == value; })->text;
}

/// "sgd|adam", for help texts.
template <typename Enum, std::size_t N>
std::string any_of(const std::array<Word<Enum>, N>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : "|") + std::string(word.text);
  return text;
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

}  // namespace pdl::setting_words
