#include "sim/study/common_settings.hpp"

#include <algorithm>

#include "sim/report/text_table.hpp"

namespace pdl {

std::vector<SettingValue> common_settings(const std::vector<std::vector<SettingValue>>& rows) {
  std::vector<SettingValue> common;
  if (rows.empty()) return common;
  for (const SettingValue& setting : rows.front()) {
    const bool same = std::all_of(rows.begin(), rows.end(), [&](const std::vector<SettingValue>& row) {
      return std::any_of(row.begin(), row.end(), [&](const SettingValue& other) {
        return other.name == setting.name && other.value == setting.value;
      });
    });
    if (same) common.push_back(setting);
  }
  return common;
}

std::string common_settings_text(const std::vector<std::vector<SettingValue>>& rows, std::size_t width) {
  if (rows.empty()) return "";
  std::string text;
  for (const SettingValue& setting : common_settings(rows)) {
    text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  }
  return wrap("all rows: " + text, width, 2);
}

}  // namespace pdl
