#include "sim/study/scenario_table.hpp"

#include <algorithm>

namespace pdl {

bool ScenarioTable::has_measurements() const {
  return std::any_of(rows.begin(), rows.end(), [](const ScenarioRow& row) { return row.measured.has_value(); });
}

std::optional<ProgramOf> ScenarioTable::other_program() const {
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const ScenarioRow& row) { return row.other && row.other->measured; });
  if (!any) return std::nullopt;
  return other_of(program());
}

ScenarioTable measured_rows(ScenarioTable table) {
  std::erase_if(table.rows,
                [](const ScenarioRow& row) { return !row.measured && !(row.other && row.other->measured); });
  return table;
}

std::size_t row_number(const ScenarioTable& table, std::size_t row) {
  std::size_t number = row + 1;
  for (const LeftOutRow& left_out : table.scenario.left_out) number += left_out.number <= number ? 1 : 0;
  return number;
}

std::size_t baseline_row(const ScenarioTable& table, std::size_t row) {
  const RunSpec& spec = table.rows[row].spec;
  const auto same = [&](const ScenarioRow& other) {
    return other.spec.model_name == spec.model_name && other.spec.depth == spec.depth && other.spec.dim == spec.dim &&
           other.spec.transformer == spec.transformer && other.spec.batch == spec.batch &&
           other.spec.accum == spec.accum && other.spec.delay_ms == spec.delay_ms;
  };
  return static_cast<std::size_t>(std::find_if(table.rows.begin(), table.rows.end(), same) - table.rows.begin());
}

}  // namespace pdl
