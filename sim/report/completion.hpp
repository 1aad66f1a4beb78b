// Scripts that complete a program's flags, subcommands and values in a shell.
//
//   source <(pdl-sim --completion bash)         pdl-sim --sched<TAB>  ->  pdl-sim --schedule
//                                               pdl-sim --schedule zb<TAB><TAB>  ->  zb-h1  zb-h2  zb-v
//
// Where several values may be given, separated by commas, each is completed. Not here: files, which the shell knows.
#pragma once

#include <string>

#include "sim/report/program_description.hpp"

namespace pdl {

/// For bash 4 and later, without the package bash-completion.
std::string bash_completion(const ProgramDescription& program);

/// Begins with "#compdef", as a file of $fpath; may be sourced after compinit as well.
std::string zsh_completion(const ProgramDescription& program);

}  // namespace pdl
