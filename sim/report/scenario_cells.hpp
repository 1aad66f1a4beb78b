// The heads and cells of a scenario's columns: one of most, and of the step time predicted, measured and error, of both
// programs where the table has runs of both.
//
//   pdl-run predicted (ms)  ± (%)  pdl-run measured (ms)  error (%)  PyTorch predicted (ms)  PyTorch measured (ms)  ...
//
// What is in a cell: scenario_columns.hpp. Which columns and rows a table has: scenario_document.hpp.
#pragma once

#include <vector>

#include "sim/report/document.hpp"
#include "sim/report/scenario_columns.hpp"

namespace pdl {

void add_columns(const ScenarioColumn& column, const ScenarioTable& scenario, Table& table);

/// As many as add_columns() adds. `with_measured`: the table has measured runs; predicted numbers beside them are
/// marked.
void add_cells(const ScenarioColumn& column, CellPlace cell, bool with_measured, std::vector<TableCell>& cells);

/// The cells of a row that is left out, the `place`-th of those: its number and settings, its step time by the other
/// program where the table has that, - for the rest. `of_gpus`: the second column is that of the GPU.
std::vector<TableCell> cells_left_out(std::size_t place, const ScenarioTable& scenario,
                                      const std::vector<const ScenarioColumn*>& columns, bool of_gpus);

}  // namespace pdl
