#include "sim/spec/settings/rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "sim/io/words.hpp"
#include "sim/spec/hugging_face_config.hpp"
#include "sim/spec/presets.hpp"

namespace pdl::setting_rows {
namespace {

/// The word by which that model is told the same; empty if there is none.
std::string word_of_model(const std::string& name, const RunSpec& spec) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kOfMlpAndByName = {
      {{"depth", "layers"}, {"dim", "hidden"}}};
  for (const auto& [of_mlp, by_name] : kOfMlpAndByName) {
    if (name == of_mlp && find_preset(spec.model_name)) return by_name;
    if (name == by_name && spec.model_name == "mlp") return of_mlp;
  }
  return "";
}

}  // namespace

std::int64_t whole_of(const SettingValue& value, const Range& range) {
  const std::int64_t largest = std::isinf(range.largest) ? INT64_MAX : static_cast<std::int64_t>(range.largest);
  return parse_whole(value.place, value.value, static_cast<std::int64_t>(range.least), largest);
}

double number_of(const SettingValue& value, const Range& range) {
  return parse_number(value.place, value.value, range.least, range.largest);
}

bool is_on(const SettingValue& value) {
  return parse_whole(value.place, value.value, 0, 1) == 1;
}

std::string on_off_text(bool on) {
  return on ? "1" : "0";
}

NoMeaning no_meaning_with(const SettingValue& value, const std::string& with) {
  return {value.name + " " + value.value + " with " + with, "no " + value.name + ": it has no meaning there"};
}

NoMeaning of_another_model(const SettingValue& value, const RunSpec& spec) {
  std::string expected = "no " + value.name + ": the model comes from " + spec.model_name;
  if (const std::string word = word_of_model(value.name, spec); !word.empty())
    expected += " (did you mean --" + word + "?)";
  if (const std::string words = words_beside_hugging_face_config(spec.model_name); !words.empty())
    expected += ", beside which " + words + " may be said";
  return {value.value, expected, false};
}

std::string strategy_of(const RunSpec& spec) {
  return "strategy " + to_string(spec.strategy);
}

std::string name_text(double number) {
  std::string text = to_text(number);
  std::replace(text.begin(), text.end(), '.', 'p');
  std::erase(text, '+');
  return text;
}

std::string name_text(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  for (char& c : stem) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return stem;
}

}  // namespace pdl::setting_rows
