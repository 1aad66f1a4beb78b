#include "sim/study/sweep_words.hpp"

#include <algorithm>
#include <optional>
#include <set>

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

/// Settings that some row has otherwise than the first one that has any. A setting is stored once for all rows. Nothing
/// where rows differ in which settings they have: any word may then be another one.
std::optional<std::set<std::string>> differing_settings(const Sweep& sweep) {
  std::set<std::string> names;
  const SweepRow* first = nullptr;
  const auto compare = [&](const RowSettings& own, const RowSettings& of_first) {
    if (own.size() != of_first.size()) return false;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (&own[i] == &of_first[i]) continue;
      if (own[i].name != of_first[i].name || own[i].name == "strategy") return false;
      names.insert(own[i].name);
    }
    return true;
  };
  for (const SweepRow& row : sweep.rows) {
    if (row.settings.empty()) continue;
    if (!first) first = &row;
    if (!compare(row.settings, first->settings) || !compare(row.given, first->given)) return std::nullopt;
  }
  return names;
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
  const std::optional<std::set<std::string>> differing = differing_settings(sweep);
  return words_where([&](const std::string& name) {
    if (std::find(sweep.varying.begin(), sweep.varying.end(), name) != sweep.varying.end()) return true;
    if (differing && !differing->contains(name)) return false;
    const SweepRow* first = nullptr;
    bool known = false, differs = false;
    for (const SweepRow& row : sweep.rows) {
      if (row.settings.empty()) continue;
      if (!first) first = &row;
      known = known || find_setting(row.settings, name);
      differs = differs || word_of(row, name) != word_of(*first, name);
      if (known && differs) break;
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
