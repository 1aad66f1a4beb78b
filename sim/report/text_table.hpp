// A table of text: for a terminal (columns lined up) or as markdown.
//
//   TextTable table{{{"GPU", "", Align::right}, {"busy", "ms", Align::right}}, {{"0", "3.000"}, {"1", "3.000"}}};
//   to_text(table)        GPU   busy
//                                 ms
//                       ------------
//                           0  3.000
//
// A byte is a column. Control characters of cells and of wrapped text are shown as text (sim/io/printable_text.hpp).
#pragma once

#include <string>
#include <vector>

#include "sim/report/document.hpp"
#include "sim/report/wrap.hpp"

namespace pdl {

struct TextColumn {
  std::string title;  // of several lines, where it has '\n'
  std::string unit;   // last line of the head; the line is left out when no column has one
  Align align = Align::right;
};

struct TextTable {
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
};

/// Lines without trailing spaces, each ended by '\n'.
std::string to_text(const TextTable& table);

/// GitHub's markdown; '|' in cells is escaped.
std::string to_markdown(const TextTable& table);

}  // namespace pdl
