// The table of a scenario: a row a configuration, predicted beside measured; and a second one, a row a GPU.
//
//   row  GPUs       step      step  error   speed-up  speed-up
//                   time      time         predicted  measured
//              predicted  measured
//                     ms        ms      %
//   ----------------------------------------------------------
//     1     2       7.47      7.55   -1.0       1.00      1.00
//     2     5       7.49         -      -       1.00         -
//
// Behind a number "r": read off a recorded step that was unlike the median one; the legend says how much.
//
// Columns: scenario_columns.hpp. The answer below the tables: sim/course/answers.hpp.
#pragma once

#include <cstddef>
#include <string>

#include "sim/study/scenario_table.hpp"

namespace pdl {

/// The columns and answers that a scenario may name: what load_scenario() checks it against.
ScenarioNames scenario_names();

/// Title, question, tables, legend, answer. `width`: columns of the terminal, for the sentences.
std::string scenario_text(const ScenarioTable& table, std::size_t width);

}  // namespace pdl
