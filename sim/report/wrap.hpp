// Sentences broken into lines for a terminal.
//
//   wrap("warning: extrapolated beyond measured sizes", 30, 9)
//   -> warning: extrapolated beyond
//               measured sizes
//
// A byte is a column. Control characters are shown as text (sim/io/printable_text.hpp).
#pragma once

#include <cstddef>
#include <string>

namespace pdl {

/// Breaks text at spaces into lines of at most `width` columns. The first line keeps the spaces that it begins with,
/// the following ones start with `indent` spaces. Words are never cut. Ends with '\n'.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 0);

}  // namespace pdl
