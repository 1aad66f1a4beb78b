#include "sim/study/common_settings.hpp"

#include <algorithm>

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

}  // namespace pdl
