#include "sim/run/setting_json.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/io/words.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;

/// None if the text is not exactly what a number prints as.
std::optional<ordered_json> number_to_json(const std::string& text) {
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  if (std::from_chars(text.data(), end, whole).ptr == end && std::to_string(whole) == text) return whole;
  double number = 0;
  const bool read = std::from_chars(text.data(), end, number).ptr == end && std::isfinite(number);
  return read && to_text(number) == text ? std::optional<ordered_json>(number) : std::nullopt;
}

std::string number_text(const JsonPlace& place, const char* expected) {
  if (!place.json().is_number()) place.refuse(expected);
  return place.json().is_number_float() ? to_text(place.json().get<double>()) : place.json().dump();
}

}  // namespace

ordered_json setting_to_json(const SettingValue& setting) {
  const std::vector<std::string> parts = split_at(setting.value, ',');
  if (parts.size() == 1 || !has_value_a_stage(setting.name))
    return number_to_json(setting.value).value_or(setting.value);
  ordered_json list = ordered_json::array();
  for (const std::string& part : parts) list.push_back(number_to_json(part).value_or(part));
  return list;
}

SettingValue read_setting(const std::string& name, const JsonPlace& place) {
  if (place.json().is_string()) return {name, place.text(), place.name()};
  if (!place.json().is_array() || !has_value_a_stage(name))
    return {name, number_text(place, "text or a number"), place.name()};
  std::string text;
  for (std::size_t i = 0; i < place.size(); ++i) text += (i == 0 ? "" : ",") + number_text(place.at(i), "a number");
  if (text.empty()) place.refuse("at least one number");
  return {name, text, place.name()};
}

}  // namespace pdl
