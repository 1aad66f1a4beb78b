// JSON as programs write it, read some times faster than nlohmann's parser does: the files of profiles and runs.
//
//   plain_json("{\"rows\":[8,16]}")     the document
//   plain_json("{\"rows\":[8,16}")      nothing: whoever asked reads it by nlohmann's parser, which says what is wrong
//
// Plain: strings of printable ASCII with the short escapes, whole numbers of at most 18 digits, floating-point numbers
// within the range of a double, no key twice in an object, at most 100 values within values. What is given back is what
// nlohmann's parser gives; any other text, valid or not, gives nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace pdl {

inline constexpr std::size_t kDeepestJson = 100;  // what writes a document again walks down it

std::optional<nlohmann::json> plain_json(std::string_view text);

}  // namespace pdl
