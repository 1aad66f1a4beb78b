// What the rows of a table of runs have in common, in one line above it.
//
//   all rows: model mlp, depth 8, dim 8192, gpus 4, ...
#pragma once

#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Settings of the first row that every other row has with the same value, in its order.
std::vector<SettingValue> common_settings(const std::vector<std::vector<SettingValue>>& rows);

/// The same in one line. `rows`: to_settings() of each.
std::string common_settings_text(const std::vector<std::vector<SettingValue>>& rows, std::size_t width);

}  // namespace pdl
