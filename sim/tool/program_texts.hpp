// What describes a program beside its --help, written by the program itself from its own flags: completion for shells,
// a manual page. cmake --install puts them where shells and man look (cmake/ProgramTexts.cmake).
//
//   CLI::App app("...", "pdl-sim");
//   ...
//   add_program_texts(app);        // --completion bash|zsh, --man-page
//
// Values that are completed: words of the value's name ("fp32|tf32"), names of schedules, of profiles and of scenarios
// that came with the program, files where the name says FILE.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "sim/report/program_description.hpp"

namespace pdl {

/// Values of flags that their help does not list as "a|b": {{"--dtypes", {"fp32", "tf32"}}}.
using KnownWords = std::map<std::string, std::vector<std::string>>;

ProgramDescription describe_program(const CLI::App& app, const KnownWords& known);

/// Call it last: flags that are added later are not in the texts. `app` must outlive its parsing.
void add_program_texts(CLI::App& app, const KnownWords& known = {});

}  // namespace pdl
