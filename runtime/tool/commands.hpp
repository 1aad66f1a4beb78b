// The two things that pdl-run does: one run (without a subcommand), and every run of a scenario file.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace pdl {

/// What the chosen command came to: an exit code of sim/io/error.hpp.
using ExitCode = std::shared_ptr<int>;

/// `arguments`: the words after the program's name, for the workers that it starts and for the record.
void add_run(CLI::App& app, const std::vector<std::string>& arguments, ExitCode code);
void add_scenario(CLI::App& app, ExitCode code);

}  // namespace pdl
