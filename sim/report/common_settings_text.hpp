// What the rows of a table of runs have in common, in one line above it.
//
//   all rows: model mlp, depth 8, dim 8192, gpus 4, ...
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// `rows`: to_settings() of each. Empty if there is no row.
std::string common_settings_text(const std::vector<std::vector<SettingValue>>& rows, std::size_t width);

}  // namespace pdl
