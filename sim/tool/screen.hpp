// What the terminal is like: its width, and whether it shows colours.
#pragma once

#include "sim/report/run_document.hpp"

namespace pdl {

/// COLUMNS if it is a number from 40 to 1000; else the width of the terminal; else 100.
std::size_t screen_width();

/// On a terminal that is not "dumb", unless NO_COLOR is set.
bool screen_has_color();

RunStyle screen_style(bool with_gantt);

}  // namespace pdl
