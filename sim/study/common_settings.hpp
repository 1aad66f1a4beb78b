// What the rows of a table of runs have in common.
//
//   gpus 4, batch 64, dtype fp32
//   gpus 4, batch 128, dtype fp32    ->  gpus 4, dtype fp32
#pragma once

#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Settings of the first row that every other row has with the same value, in its order. `rows`: to_settings() of each.
std::vector<SettingValue> common_settings(const std::vector<std::vector<SettingValue>>& rows);

}  // namespace pdl
