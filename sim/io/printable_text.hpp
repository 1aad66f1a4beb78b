// Text from files, shown to people: what would move the cursor of a terminal, change its colours or its title, or end a
// line in the middle of a message is written out instead.
//
//   printable("card \x1b[31m\n")     -> "card \\x1b[31m\\n"        as C++ would write it in quotes
//   printable("Größe")               -> "Größe"
//   printable("\xff.json")           -> "\\xff.json"               no UTF-8
//
// The names in profiles, runs and scenarios, the names of files, and what a message quotes of them pass through here
// where they are shown: cells of tables and wrapped lines (sim/report/document.hpp), error messages (the main
// function of each program). JSON has escapes of its own. Not here: how wide a character is.
#pragma once

#include <string>
#include <string_view>

namespace pdl {

/// Escapes the control characters of ASCII (line ends and tabs too) and of Unicode (U+0080 to U+009F), those that
/// change the direction of writing (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), the line and paragraph
/// separators (U+2028, U+2029), and bytes that are no UTF-8.
std::string printable(std::string_view text);

/// True if all of it is well-formed UTF-8 (RFC 3629: no surrogates, nothing longer than it need be).
bool is_utf8(std::string_view text);

}  // namespace pdl
