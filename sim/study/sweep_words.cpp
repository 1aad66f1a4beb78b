#include "sim/study/sweep_words.hpp"

#include <algorithm>

#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

/// Words that to_settings() leaves out where they say nothing special: of a pipeline, what they are then.
std::string left_out(const SweepRow& row, const SettingRow& setting) {
  const SettingValue* strategy = find_setting(row.settings, "strategy");
  if (!strategy || strategy->value != "pp" || !setting.left_out) return "-";
  return setting.left_out(row.settings.list());
}

template <typename Wanted>
std::vector<std::string> words_where(Wanted wanted) {
  std::vector<std::string> words;
  for (const SettingRow& setting : all_settings()) {
    if (wanted(setting.name)) words.push_back(setting.name);
  }
  return words;
}

}  // namespace

std::string word_of(const SweepRow& row, const std::string& name) {
  const SettingValue* strategy = find_setting(row.settings, "strategy");
  const SettingRow& setting = *find_row(name);
  // `--schedule naive` may be given beside mp, whose order that is.
  if (strategy && strategy->value != "pp" && setting.of_pipelines) return "-";
  if (const SettingValue* given = find_setting(row.given, name)) return given->value;
  if (const SettingValue* own = find_setting(row.settings, name)) return own->value;
  return left_out(row, setting);
}

std::vector<std::string> differing_words(const Sweep& sweep) {
  return words_where([&](const std::string& name) {
    if (std::find(sweep.varying.begin(), sweep.varying.end(), name) != sweep.varying.end()) return true;
    const SweepRow* first = nullptr;
    bool known = false, differs = false;
    for (const SweepRow& row : sweep.rows) {
      if (row.settings.empty()) continue;
      if (!first) first = &row;
      known = known || find_setting(row.settings, name);
      differs = differs || word_of(row, name) != word_of(*first, name);
    }
    return known && differs;
  });
}

std::vector<std::string> given_words(const Sweep& sweep) {
  return words_where([&](const std::string& name) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const SweepRow& row) { return find_setting(row.given, name) != nullptr; });
  });
}

}  // namespace pdl
