// A setting as JSON has it, in the `config` of a run, in scenario files and in the JSON of a sweep.
//
//   "gpus": 4,  "schedule": "1f1b",  "delay-ms": 2.5,  "tf": [1, 1, 2, 1]
//
// Which settings there are, and which of them have a value a stage: sim/spec/settings.hpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/io/json_place.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// The value of a setting: a number where the text is exactly what the number prints as, a list of numbers where it is
/// a value a stage; text otherwise.
nlohmann::ordered_json setting_to_json(const SettingValue& setting);

/// A setting as JSON has it: text, a number, or where a setting has a value a stage, a list of numbers ("tf":
/// [1, 1, 2, 1]). Throws InputError with the place.
SettingValue read_setting(const std::string& name, const JsonPlace& place);

}  // namespace pdl
