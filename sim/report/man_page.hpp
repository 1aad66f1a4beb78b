// The manual page of a program, for man: what its --help says, with its subcommands.
//
//   pdl-sim --man-page > share/man/man1/pdl-sim.1        man pdl-sim
//
// Text of roff with the macros of man(7). A subcommand's flags that the program itself has are named once, together.
#pragma once

#include <string>

#include "sim/report/program_description.hpp"

namespace pdl {

std::string man_page(const ProgramDescription& program);

}  // namespace pdl
