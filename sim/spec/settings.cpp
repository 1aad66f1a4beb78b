#include "sim/spec/settings.hpp"

#include <algorithm>
#include <iterator>

#include "sim/spec/settings/rows.hpp"

namespace pdl {

std::span<const SettingRow> all_settings() {
  static const std::vector<SettingRow> all = [] {
    std::vector<SettingRow> rows;
    for (auto* theme : {setting_rows::model, setting_rows::mesh, setting_rows::schedule, setting_rows::split,
                        setting_rows::execution, setting_rows::data_parallel, setting_rows::measurement,
                        setting_rows::cluster, setting_rows::synthetic_costs}) {
      std::ranges::move(theme(), std::back_inserter(rows));
    }
    return rows;
  }();
  return all;
}

const SettingRow* find_row(const std::string& name) {
  const auto all = all_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SettingRow& setting) { return setting.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string help_of(const SettingRow& setting) {
  if (!setting.usual_in_help) return setting.help;
  if (!setting.usual_words.empty()) return setting.help + " (" + setting.usual_words + ")";
  return setting.help + (setting.usual.empty() ? "" : " (default " + setting.usual + ")");
}

bool is_synthetic_cost(const SettingRow& setting) {
  return setting.values == Values::cost || setting.values == Values::cost_by_stage;
}

bool is_synthetic_cost(const std::string& name) {
  const SettingRow* row = find_row(name);
  return row && is_synthetic_cost(*row);
}

bool is_of_model(const SettingRow& setting) {
  return setting.turn == Turn::model;
}

bool is_number(const SettingRow& setting) {
  return setting.values == Values::whole || setting.values == Values::number || is_synthetic_cost(setting);
}

bool has_value_a_stage(const std::string& name) {
  const SettingRow* row = find_row(name);
  return row && (row->values == Values::cost_by_stage || row->values == Values::whole_by_stage);
}

std::vector<SettingValue> to_settings(const RunSpec& spec) {
  std::vector<SettingValue> settings;
  for (const SettingRow& row : all_settings()) {
    const std::optional<std::string> text = row.write(spec);
    if (text && (row.written_if_usual || *text != row.usual)) settings.push_back({row.name, *text, row.name});
  }
  return settings;
}

}  // namespace pdl
