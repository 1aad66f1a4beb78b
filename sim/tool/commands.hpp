// The subcommands of pdl-sim. Each adds its words to the command line and what to do when it is called; one file each.
//
//   pdl-sim --gpus 5 --depth 20 --schedule gpipe      simulate.cpp
//   pdl-sim compare A.json B.json                     compare.cpp
#pragma once

#include <CLI/CLI.hpp>

namespace pdl {

void add_simulate(CLI::App& app);
void add_compare(CLI::App& app);
void add_import_trace(CLI::App& app);
void add_validate(CLI::App& app);
void add_profiles(CLI::App& app);
void add_schedules(CLI::App& app);
void add_sweep(CLI::App& app);
void add_scenario(CLI::App& app);
void add_plan(CLI::App& app);

}  // namespace pdl
