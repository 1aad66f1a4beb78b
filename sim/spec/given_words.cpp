#include "sim/spec/given_words.hpp"

#include <algorithm>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/settings.hpp"

namespace pdl::setting_words {

void check_known(const SettingValue& setting) {
  if (find_row(setting.name)) return;
  std::vector<std::string> known;
  for (const SettingRow& row : all_settings()) known.push_back(row.name);
  const std::string nearest = nearest_word(setting.name, known);
  throw InputError(setting.place, "an unknown setting " + setting.name,
                   nearest.empty() ? "one of " + list_words(known) : nearest);
}

Given collect(std::span<const SettingValue> values) {
  Given given;
  for (const SettingValue& setting : values) {
    check_known(setting);
    if (!is_utf8(setting.value)) {
      throw InputError(setting.place, setting.value + ", which is no UTF-8", "a value in UTF-8: JSON is written in it");
    }
    if (setting.value.find('\0') != std::string::npos) {  // of JSON: a message that quotes it would end there
      throw InputError(setting.place, printable(setting.value), "a value without a character \\0");
    }
    if (!given.emplace(setting.name, setting).second) {
      throw InputError(setting.place, setting.name + " given twice", "one value");
    }
  }
  return given;
}

const SettingValue* find(const Given& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? nullptr : &found->second;
}

std::string place_of(const Given& given, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const SettingValue* s = find(given, name)) return s->place;
  }
  return *names.begin();
}

}  // namespace pdl::setting_words
