#include "sim/study/scenario.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/other_program.hpp"
#include "sim/run/run_name.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/spec/mesh.hpp"
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

/// The lists of one `vary` object by setting, in the order of all_settings(); a single value counts as a list of one.
struct VariedSetting {
  std::string name;
  Settings values;
};

std::vector<VariedSetting> read_varied(const JsonPlace& place) {
  place.object_of(setting_names());
  std::vector<VariedSetting> varied;
  for (const std::string& name : setting_names()) {
    if (!place.has(name)) continue;
    const JsonPlace list = place.at(name);
    Settings values;
    for (std::size_t i = 0; list.json().is_array() && i < list.size(); ++i)
      values.push_back(read_setting(name, list.at(i)));
    if (!list.json().is_array()) values.push_back(read_setting(name, list));
    if (values.empty()) list.refuse("at least one value");
    varied.push_back({name, std::move(values)});
  }
  return varied;
}

/// Every combination. `name`: of the file, for the refusal.
std::vector<Settings> combinations_of(const std::vector<VariedSetting>& varied, const std::string& name) {
  constexpr std::size_t kMostCombinations = 100'000;
  std::vector<Settings> combinations = {{}};
  for (const VariedSetting& setting : varied) {
    if (combinations.size() * setting.values.size() > kMostCombinations)
      throw InputError(name + ": vary", "more than 100000 combinations", "at most 100000 combinations");
    std::vector<Settings> longer;
    for (const Settings& before : combinations) {
      for (const SettingValue& value : setting.values) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

/// The settings of a file, by where they are.
struct ReadSettings {
  Settings common;
  std::vector<std::vector<VariedSetting>> vary;
  std::vector<Settings> single;
};

ReadSettings read_all_settings(const JsonPlace& root) {
  ReadSettings read;
  if (root.has("settings")) read.common = read_settings(root.at("settings"));
  if (root.has("vary")) {
    const JsonPlace vary = root.at("vary");
    if (!vary.json().is_array()) read.vary.push_back(read_varied(vary));
    for (std::size_t i = 0; vary.json().is_array() && i < vary.size(); ++i)
      read.vary.push_back(read_varied(vary.at(i)));
  }
  if (root.has("configurations")) {
    const JsonPlace list = root.at("configurations").array();
    for (std::size_t i = 0; i < list.size(); ++i) read.single.push_back(read_settings(list.at(i)));
  }
  return read;
}

/// The values of a setting that some `vary` has several of: "1, 2, 4"; empty: none has.
std::string varied_values(const ReadSettings& read, const std::string& name) {
  for (const auto& vary : read.vary) {
    for (const VariedSetting& setting : vary) {
      if (setting.name != name || setting.values.size() < 2) continue;
      std::string text;
      for (const SettingValue& value : setting.values) text += (text.empty() ? "" : ",") + value.value;
      return text;
    }
  }
  return "";
}

/// A given list in place of the lists of the file.
void replace_list(ReadSettings& read, const SettingValue& given, const std::vector<std::string>& values) {
  for (auto& vary : read.vary) {
    for (VariedSetting& setting : vary) {
      if (setting.name != given.name) continue;
      setting.values.clear();
      for (const std::string& value : values) setting.values.push_back({given.name, value, given.place});
    }
  }
}

/// One value in place of every other.
void replace_single(ReadSettings& read, const SettingValue& given) {
  replace_list(read, given, {given.value});
  read.common = replaced(read.common, {given});
  for (Settings& single : read.single) {
    for (SettingValue& setting : single) {
      if (setting.name == given.name) setting = given;
    }
  }
}

void replace_given(ReadSettings& read, const std::vector<SettingValue>& given, const std::string& scenario) {
  for (const SettingValue& setting : given) {
    const std::vector<std::string> values =
        has_value_a_stage(setting.name) ? std::vector{setting.value} : split_at(setting.value, ',');
    const std::string varied = varied_values(read, setting.name);
    if (varied.empty() && values.size() > 1)
      throw InputError(setting.place, setting.value, "one value: " + scenario + " does not vary it");
    if (!varied.empty() && values.size() < 2)
      throw InputError(setting.place, setting.value, "a list: " + scenario + " varies it (" + varied + ")");
    varied.empty() ? replace_single(read, setting) : replace_list(read, setting, values);
  }
}

/// Equal for what may be the same run; whether it is, same_run() says.
std::string words_of(const RunSpec& spec) {
  std::string words;
  for (const SettingValue& setting : to_settings(spec)) {
    if (setting.name != "schedule" && setting.name != "overlap-steps")
      words += setting.name + "=" + setting.value + "\n";
  }
  return words;
}

/// Of the settings of all configurations. Rows that what a user gave has made the same are one; others are refused.
std::vector<RunSpec> read_specs(const std::vector<Settings>& all, const Settings& common, bool merge,
                                const std::string& file) {
  constexpr std::size_t kMostLayers = 10'000'000;
  std::vector<RunSpec> specs;
  std::map<std::string, std::vector<std::size_t>> by_words;
  std::size_t layers = 0;
  for (const Settings& own : all) {
    RunSpec spec = parse_run_spec(replaced(common, own));
    std::vector<std::size_t>& alike = by_words[words_of(spec)];
    const bool twice = std::any_of(alike.begin(), alike.end(), [&](std::size_t i) { return same_run(specs[i], spec); });
    if (twice && !merge)
      throw InputError(own.empty() ? file : own.front().place, "a configuration given twice (" + describe(spec) + ")",
                       "each once");
    if (twice) continue;
    layers += spec.model.layers.size();
    if (layers > kMostLayers)
      throw InputError(file, "more than " + std::to_string(kMostLayers) + " layers in all configurations", "fewer");
    alike.push_back(specs.size());
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<std::string> named_settings(const ReadSettings& read) {
  const auto has = [](const Settings& settings, const std::string& name) {
    return std::any_of(settings.begin(), settings.end(), [&](const SettingValue& s) { return s.name == name; });
  };
  std::vector<std::string> names;
  for (const std::string& name : setting_names()) {
    bool named = has(read.common, name);
    for (const Settings& single : read.single) named = named || has(single, name);
    for (const auto& vary : read.vary) {
      for (const VariedSetting& setting : vary) named = named || setting.name == name;
    }
    if (named) names.push_back(name);
  }
  return names;
}

void read_configurations(const JsonPlace& root, const std::vector<SettingValue>& given, Scenario& scenario) {
  ReadSettings read = read_all_settings(root);
  replace_given(read, given, scenario.id);
  std::vector<Settings> all;
  for (const auto& vary : read.vary) {
    for (const Settings& settings : combinations_of(vary, root.name())) all.push_back(settings);
  }
  all.insert(all.end(), read.single.begin(), read.single.end());
  if (all.empty() && !read.common.empty()) all.emplace_back();
  if (all.empty()) throw InputError(root.name(), "no configuration", "settings, vary or configurations");
  scenario.configurations = read_specs(all, read.common, !given.empty(), root.name());
  scenario.named = named_settings(read);
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

/// "scenarios/python/hw3_4_more_gpus.py" of scenarios/hw3_4_more_gpus.json, where there is such a file.
std::string python_of(const std::filesystem::path& scenario) {
  const std::filesystem::path file = scenario.parent_path() / "python" / scenario.filename().replace_extension(".py");
  std::error_code error;
  return std::filesystem::exists(file, error) ? "scenarios/python/" + file.filename().string() : "";
}

/// What was asked for, as other rows of the program have it.
RunSpec asked_of(RunSpec spec, ProgramOf program) {
  spec.program = program;
  spec.given.erase("transport");
  if (!is_pytorch_pipeline(spec)) return spec;
  spec.workers = Workers::process;
  spec.transport = Transport::nccl;
  spec.p2p = point_to_point_of(spec.transport);
  return spec;
}

}  // namespace

std::string without_place(const std::string& refusal) {
  const std::size_t found = refusal.find("found ");
  return found == std::string::npos ? refusal : refusal.substr(found);
}

Scenario of_program(Scenario scenario, ProgramOf program, const std::string& place) {
  std::vector<RunSpec> rows;
  std::vector<std::size_t> numbers;
  std::size_t number = 0;
  for (const RunSpec& spec : scenario.configurations) {
    ++number;
    try {
      RunSpec row = by_program(spec, program);
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const RunSpec& r) { return same_run(r, row); });
      if (same == rows.end()) {
        rows.push_back(std::move(row));
        numbers.push_back(number);
        continue;
      }
      const std::string first = std::to_string(numbers[static_cast<std::size_t>(same - rows.begin())]);
      scenario.left_out.push_back({number, std::move(row), spec, "the same run as row " + first});
    } catch (const InputError& error) {
      scenario.left_out.push_back({number, asked_of(spec, program), spec, without_place(error.what())});
    }
  }
  if (rows.empty()) {
    throw InputError(place, to_string(program) + " for " + scenario.id,
                     "a scenario with a row of that program; of row 1: " + scenario.left_out.front().reason);
  }
  scenario.configurations = std::move(rows);
  scenario.named.push_back("program");
  return scenario;
}

Scenario load_scenario(const std::string& path, const ScenarioNames& known, const std::vector<SettingValue>& given) {
  const nlohmann::json document = read_json_file(path);
  const JsonPlace root(document, path);
  root.object_of(kKeys);
  Scenario scenario;
  scenario.path = path;
  scenario.python = python_of(path);
  scenario.id = root.at("id").text();
  scenario.title = root.at("title").text();
  if (root.has("source")) scenario.source = root.at("source").text();
  if (root.has("question")) scenario.question = root.at("question").text();
  read_configurations(root, given, scenario);
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
