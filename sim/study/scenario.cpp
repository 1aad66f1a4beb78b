#include "sim/study/scenario.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"
#include "sim/run/run_name.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

const std::array<std::string, 9> kKeys = {"id",   "title",          "source",  "question", "settings",
                                          "vary", "configurations", "columns", "answer"};

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const SettingRow& setting : all_settings()) names.push_back(setting.name);
  return names;
}

using Settings = std::vector<SettingValue>;

/// `common`, with the values of `own` in place of those of the same name.
Settings replaced(const Settings& common, const Settings& own) {
  Settings all = own;
  for (const SettingValue& setting : common) {
    const bool overridden = std::any_of(own.begin(), own.end(), [&](const auto& o) { return o.name == setting.name; });
    if (!overridden) all.push_back(setting);
  }
  return all;
}

Settings read_settings(const JsonPlace& place) {
  place.object_of(setting_names());
  Settings settings;
  for (const auto& [name, value] : place.json().items()) settings.push_back(read_setting(name, place.at(name)));
  return settings;
}

/// Every combination of the lists of one `vary` object; a single value counts as a list of one.
std::vector<Settings> read_combinations(const JsonPlace& place) {
  constexpr std::size_t kMostCombinations = 100'000;
  place.object_of(setting_names());
  std::vector<Settings> combinations = {{}};
  for (const std::string& name : setting_names()) {
    if (!place.has(name)) continue;
    const JsonPlace list = place.at(name);
    std::vector<SettingValue> values;
    for (std::size_t i = 0; list.json().is_array() && i < list.size(); ++i)
      values.push_back(read_setting(name, list.at(i)));
    if (!list.json().is_array()) values.push_back(read_setting(name, list));
    if (values.empty()) list.refuse("at least one value");
    if (combinations.size() * values.size() > kMostCombinations) list.refuse("at most 100000 combinations");
    std::vector<Settings> longer;
    for (const Settings& before : combinations) {
      for (const SettingValue& value : values) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::vector<RunSpec> read_configurations(const JsonPlace& root) {
  const Settings common = root.has("settings") ? read_settings(root.at("settings")) : Settings{};
  std::vector<Settings> all;
  if (root.has("vary")) {
    const JsonPlace vary = root.at("vary");
    if (!vary.json().is_array()) all = read_combinations(vary);
    for (std::size_t i = 0; vary.json().is_array() && i < vary.size(); ++i) {
      for (const Settings& settings : read_combinations(vary.at(i))) all.push_back(settings);
    }
  }
  if (root.has("configurations")) {
    const JsonPlace list = root.at("configurations").array();
    for (std::size_t i = 0; i < list.size(); ++i) all.push_back(read_settings(list.at(i)));
  }
  if (all.empty() && !common.empty()) all.emplace_back();
  if (all.empty()) throw InputError(root.name(), "no configuration", "settings, vary or configurations");

  std::vector<RunSpec> specs;
  for (const Settings& own : all) {
    specs.push_back(parse_run_spec(replaced(common, own)));
    for (std::size_t i = 0; i + 1 < specs.size(); ++i) {
      if (same_run(specs[i], specs.back())) {
        throw InputError(own.empty() ? root.name() : own.front().place,
                         "a configuration given twice (" + describe(specs[i]) + ")", "each once");
      }
    }
  }
  return specs;
}

[[noreturn]] void refuse_name(const JsonPlace& place, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(place.text(), known);
  place.refuse((nearest.empty() ? "" : "\"" + nearest + "\" perhaps; one of ") + list_words(known));
}

std::string read_known(const JsonPlace& place, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), place.text()) == known.end()) refuse_name(place, known);
  return place.text();
}

std::vector<std::string> read_columns(const JsonPlace& place, const std::vector<std::string>& known) {
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < place.array().size(); ++i) {
    const std::string name = read_known(place.at(i), known);
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) place.at(i).refuse("each column once");
    columns.push_back(name);
  }
  if (columns.empty()) place.refuse("at least one column");
  return columns;
}

}  // namespace

Scenario load_scenario(const std::string& path, const ScenarioNames& known) {
  const nlohmann::json document = read_json_file(path);
  const JsonPlace root(document, path);
  root.object_of(kKeys);
  Scenario scenario;
  scenario.path = path;
  scenario.id = root.at("id").text();
  scenario.title = root.at("title").text();
  if (root.has("source")) scenario.source = root.at("source").text();
  if (root.has("question")) scenario.question = root.at("question").text();
  scenario.configurations = read_configurations(root);
  scenario.columns = read_columns(root.at("columns"), known.columns);
  if (root.has("answer")) scenario.answer = read_known(root.at("answer"), known.answers);
  return scenario;
}

std::vector<std::string> scenario_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  if (files.empty()) throw InputError(folder, "no scenario file", "a folder with *.json");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace pdl
