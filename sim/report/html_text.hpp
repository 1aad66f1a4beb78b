// Text inside a page of HTML.
//
//   html_escaped("a < b\n")                        "a &lt; b\\n"      in elements and in attributes in quotes
//   html_json({{"name", "</script>"}})             {"name":"\u003c/script>"}   in <script type="application/json">
//   Anchors ids;  ids.of("HW1.2 Q1")               "hw1-2-q1"; the second time "hw1-2-q1-2"
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace pdl {

/// Control characters are written out (sim/io/printable_text.hpp).
std::string html_escaped(const std::string& text);

/// JSON in which no '<' is, so that nothing in it ends the element that it is in. Bytes that are no UTF-8 are replaced.
std::string html_json(const nlohmann::ordered_json& value);

/// Identifiers that are unique in a page: small letters, digits and '-', a letter first.
class Anchors {
 public:
  std::string of(const std::string& text);

 private:
  std::map<std::string, int> used_;
};

}  // namespace pdl
