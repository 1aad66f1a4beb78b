#include "sim/report/common_settings_text.hpp"

#include "sim/report/text_table.hpp"
#include "sim/study/common_settings.hpp"

namespace pdl {

std::string common_settings_text(const std::vector<std::vector<SettingValue>>& rows, std::size_t width) {
  if (rows.empty()) return "";
  std::string text;
  for (const SettingValue& setting : common_settings(rows)) {
    text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  }
  return wrap("all rows: " + text, width, 2);
}

}  // namespace pdl
