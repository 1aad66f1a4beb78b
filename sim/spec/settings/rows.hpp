// The rows of the table of settings (sim/spec/settings.hpp), a file a theme, and what their functions share.
//
//   {.name = "depth", .value_name = "L", .help = "number of layers", .usual = "8", .values = Values::whole, ...}
//
// Internal to sim/spec.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/spec/settings.hpp"

namespace pdl::setting_rows {

inline constexpr double kMillion = 1e6;

std::vector<SettingRow> model();
std::vector<SettingRow> transformer();  // those of model() have them among them
std::vector<SettingRow> split();
std::vector<SettingRow> mesh();
std::vector<SettingRow> schedule();
std::vector<SettingRow> execution();
std::vector<SettingRow> data_parallel();
std::vector<SettingRow> measurement();
std::vector<SettingRow> cluster();
std::vector<SettingRow> synthetic_costs();

/// The value as a number within the range. Throw InputError.
std::int64_t whole_of(const SettingValue& value, const Range& range);
double number_of(const SettingValue& value, const Range& range);
/// "1" is true, "0" is false.
bool is_on(const SettingValue& value);

std::string on_off_text(bool on);

/// "found bucket-mb 1 with strategy pp, expected no bucket-mb: it has no meaning there"
NoMeaning no_meaning_with(const SettingValue& value, const std::string& with);
/// "found 4, expected no depth: the model comes from gpt2 (did you mean --layers?)"; beside a config.json, which words
/// may be said there.
NoMeaning of_another_model(const SettingValue& value, const RunSpec& spec);
/// "strategy pp"
std::string strategy_of(const RunSpec& spec);

/// In the name of a run: "2p5", only letters, digits, '-' and '_'.
std::string name_text(double number);
/// The stem of a path, any other character replaced by '-': "my-model" of "../models/my model.json".
std::string name_text(const std::string& path);

}  // namespace pdl::setting_rows
