// Settings from pairs of a name and a value, in their order: words("gpus 2,4 schedule gpipe").
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "sim/spec/settings.hpp"

namespace pdl {

inline std::vector<SettingValue> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<SettingValue> all;
  for (std::string name, value; in >> name >> value;) all.push_back({name, value, "--" + name});
  return all;
}

}  // namespace pdl
