// A document as one page of HTML that needs no network.
//
//   write_output("run.html", [&](std::ostream& out) { out << to_html(document); });
//
//   +--------------------------------------------------+
//   | Title                        3 warnings  [theme] |
//   | contents | part                                  |   where there are four headings or more
//   |          | [timeline: zoom, pan, search, legend] |   figures by Apache ECharts (sim/report/web)
//   |          | a table that sorts                    |
//   |          | HW1.2 Q1  question  answer            |   #hw1-2-q1 is its place
//   |          | what the columns mean, each once      |
//   +--------------------------------------------------+
//
// The text is there without any script: only figures, sorting and the switch of light and dark need one. The page's
// own policy forbids the browser to load or send anything. A page without figures has no library of figures (1.1 MB).
// Not here: the terminal's drawings (Preformatted::terminal_only).
#pragma once

#include <string>

#include "sim/report/document.hpp"

namespace pdl {

/// UTF-8. Characters that mean something in HTML are escaped wherever they come from.
std::string to_html(const Document& document);

}  // namespace pdl
