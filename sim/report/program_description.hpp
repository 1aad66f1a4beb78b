// What a program takes, for what describes it beside its --help: completion of a shell (completion.hpp), a manual page
// (man_page.hpp).
//
//   ProgramDescription{.version = "0.1", .program = {.name = "pdl-sim", ...}, .commands = {{.name = "compare", ...}}}
//
// Plain values; sim/tool/program_texts.hpp makes them of a command line's parser.
#pragma once

#include <string>
#include <vector>

namespace pdl {

struct ProgramOption {
  std::vector<std::string> flags{};  // "--json"; empty: an argument without a flag
  std::string value_name{};          // "FILE|-"; empty: it takes no value
  std::string help{};
  std::vector<std::string> words{};  // values that are known
  bool takes_file = false;           // or the name of a file or folder
  bool takes_list = false;           // of values separated by commas
  bool value_may_be_left_out = false;
  bool operator==(const ProgramOption&) const = default;
};

/// The program itself, or one of its subcommands.
struct ProgramCommand {
  std::string name{};
  std::string help{};
  std::string footer{};  // examples and exit codes, lines
  std::vector<ProgramOption> options{};
};

struct ProgramDescription {
  std::string version{};
  ProgramCommand program{};
  std::vector<ProgramCommand> commands{};
};

}  // namespace pdl
