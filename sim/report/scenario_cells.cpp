#include "sim/report/scenario_cells.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/report/run_document.hpp"
#include "sim/run/describe_run.hpp"

namespace pdl {
namespace {

Align align_of(const ScenarioColumn& column) {
  constexpr std::array kLeft = {"layers", "ops", "schedule", "strategy", "workers", "dtype"};
  return std::find(kLeft.begin(), kLeft.end(), column.name) != kLeft.end() ? Align::left : Align::right;
}

/// "step_time_ms" of a column whose name has its unit, else "bubble_percent".
std::string key_of(const ScenarioColumn& column) {
  if (column.unit == "%") return column.name + "_percent";
  return column.unit == "ms" && !column.name.ends_with("_ms") ? column.name + "_ms" : column.name;
}

/// Of step times, which are the only column with errors.
bool has_error_bars(const ScenarioTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [](const ScenarioRow& row) { return row.predicted.result.error_bar.has_value(); });
}

/// Both programs are predicted the same in all rows: one column says it.
bool predicted_alike(const ScenarioColumn& column, const ScenarioTable& scenario) {
  for (std::size_t r = 0; r < scenario.rows.size(); ++r) {
    const auto& other = scenario.rows[r].other;
    if (!other || !other->predicted) continue;
    const auto text = [&](bool of_other) {
      return fixed(*column.number({scenario, r, /*measured=*/false, 0, of_other}), column.digits);
    };
    if (text(false) != text(true)) return false;
  }
  return true;
}

/// Predicted, measured, error, of each of two programs; measured ones of the rows' own where there are any.
void add_columns_of_both(const ScenarioColumn& column, const ScenarioTable& scenario, Table& table) {
  const std::string own = program_name(scenario.program()), other = program_name(*scenario.other_program());
  const std::string prefix = to_string(*scenario.other_program()) + "_";
  const bool alike = predicted_alike(column, scenario);
  constexpr const char* kNotMeasured = "a row with - here was not measured";
  constexpr const char* kError = "(predicted - measured) / measured";
  table.columns.push_back({"predicted_" + key_of(column), alike ? "predicted " + column.title : own + " predicted",
                           column.unit, column.meaning + (alike ? "; the same for both programs" : "")});
  if (has_error_bars(scenario)) table.columns.push_back(half_width_column());
  if (scenario.has_measurements()) {
    table.columns.push_back({"measured_" + key_of(column), own + " measured", column.unit, kNotMeasured});
    table.columns.push_back({column.name + "_error_percent", "error", "%", kError});
  }
  if (!alike)
    table.columns.push_back({prefix + "predicted_" + key_of(column), other + " predicted", column.unit,
                             column.title + " of the same settings by " + other});
  table.columns.push_back({prefix + "measured_" + key_of(column), other + " measured", column.unit, kNotMeasured});
  table.columns.push_back({prefix + column.name + "_error_percent", other + " error", "%", kError});
}

TableCell number_cell(const std::optional<double>& value, int digits) {
  return value && std::isfinite(*value) ? TableCell(fixed(*value, digits), *value) : TableCell("-");
}

TableCell error_cell(const std::optional<double>& predicted, const std::optional<double>& measured) {
  if (!predicted || !measured || !(*measured > 0)) return "-";
  const double error = 100 * (*predicted - *measured) / *measured;
  return {signed_fixed(error, 1), error};
}

/// `alike`: predicted_alike(), of the whole table.
void add_cells_of_other(const ScenarioColumn& column, CellPlace cell, bool alike, std::vector<TableCell>& cells) {
  const RowByOtherProgram& other = *cell.scenario_row().other;
  cell.other = true;
  const auto number = [&](bool measured) {
    cell.measured = measured;
    return (measured ? other.measured : other.predicted) ? column.number(cell) : std::nullopt;
  };
  const std::optional<double> predicted = number(false), measured = number(true);
  if (!alike) cells.push_back(number_cell(predicted, column.digits));
  cells.push_back(number_cell(measured, column.digits));
  cells.push_back(error_cell(predicted, measured));
}

}  // namespace

void add_columns(const ScenarioColumn& column, const ScenarioTable& scenario, Table& table) {
  const bool with_measured = scenario.has_measurements();
  const bool all_measured =
      std::all_of(scenario.rows.begin(), scenario.rows.end(), [](auto& row) { return row.measured.has_value(); });

  if (column.with_error && scenario.other_program()) return add_columns_of_both(column, scenario, table);
  if (!column.with_error) {
    table.columns.push_back({key_of(column), column.title, column.unit, column.meaning, align_of(column)});
    return;
  }
  table.columns.push_back({"predicted_" + key_of(column), "predicted " + column.title, column.unit, column.meaning});
  if (has_error_bars(scenario)) table.columns.push_back(half_width_column());
  if (!with_measured) return;
  table.columns.push_back({"measured_" + key_of(column), "measured " + column.title, column.unit,
                           all_measured ? "" : "a row with - here was not measured"});
  table.columns.push_back({column.name + "_error_percent", "error", "%", "(predicted - measured) / measured"});
}

void add_cells(const ScenarioColumn& column, CellPlace cell, bool with_measured, std::vector<TableCell>& cells) {
  const bool is_measured = cell.scenario_row().measured.has_value();
  if (column.setting) {
    cells.push_back(column.setting(cell));
    return;
  }
  if (!column.with_error) {
    cell.measured = is_measured;
    const bool known = is_measured || !column.measured_only;
    cells.push_back(known ? number_cell(column.number(cell), column.digits) : TableCell("-"));
    if (with_measured && !is_measured && cells.back().number) cells.back().text += " p";
    return;
  }
  const std::optional<double> predicted = column.number(cell);
  cells.push_back(number_cell(predicted, column.digits));
  if (has_error_bars(cell.table)) cells.push_back(half_width_cell(cell.scenario_row().predicted.result.error_bar));
  if (with_measured) {
    cell.measured = is_measured;
    const std::optional<double> measured = is_measured ? column.number(cell) : std::nullopt;
    cells.push_back(number_cell(measured, column.digits));
    cells.push_back(error_cell(predicted, measured));
  }
  if (cell.table.other_program()) add_cells_of_other(column, cell, predicted_alike(column, cell.table), cells);
}

/// A row that the program cannot run has its settings alone.
std::vector<TableCell> cells_left_out(std::size_t place, const ScenarioTable& scenario,
                                      const std::vector<const ScenarioColumn*>& columns, bool of_gpus) {
  const LeftOutRow& row = scenario.scenario.left_out[place];
  ScenarioTable alone{scenario.scenario, scenario.profile_name, {}, false};
  alone.rows.push_back({row.spec, {}, std::nullopt});
  if (place < scenario.left_out.size()) alone.rows.front().other = scenario.left_out[place];
  std::vector<TableCell> cells = {TableCell(std::to_string(row.number), static_cast<double>(row.number))};
  if (of_gpus) cells.emplace_back("-");
  for (const ScenarioColumn* column : columns) {
    if (column->setting && !column->of_plan) {
      cells.push_back(column->setting({alone, 0, false}));
      continue;
    }
    Table taken;
    add_columns(*column, scenario, taken);
    std::vector<TableCell> by_other;
    if (column->with_error && scenario.other_program() && alone.rows.front().other)
      add_cells_of_other(*column, {alone, 0, false}, predicted_alike(*column, scenario), by_other);
    cells.resize(cells.size() + taken.columns.size() - by_other.size(), "-");
    cells.insert(cells.end(), by_other.begin(), by_other.end());
  }
  return cells;
}

}  // namespace pdl
