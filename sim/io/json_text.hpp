// JSON as text that people can read and diff: what fits on a line is on one line.
//
//   {
//     "name": "h100x4",
//     "points": [
//       {"rows": 512, "time": 364.1},
//       {"rows": 1024, "time": 725.9}
//     ]
//   }
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace pdl {

/// Keys in their order, two spaces a level, '\n' at the end. Invalid UTF-8 is replaced. Numbers must be finite.
std::string json_text(const nlohmann::ordered_json& value, std::size_t width = 120);

}  // namespace pdl
