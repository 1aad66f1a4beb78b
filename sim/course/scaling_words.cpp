#include "sim/course/scaling_words.hpp"

#include <algorithm>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {

std::string times(double value) {
  return fixed(value, 2) + " times";
}
std::string whole_percent(double fraction) {
  return fixed(100 * fraction, 0) + " %";
}

std::string layers_text(const RunSpec& spec) {
  return count_of(spec.depth, "layer") + " of " + std::to_string(spec.dim);
}

namespace {

std::string settings_but(const ScenarioRow& row, const std::vector<std::string>& but) {
  std::string text = row.spec.model_name;
  for (const SettingValue& setting : to_settings(row.spec)) {
    if (std::find(but.begin(), but.end(), setting.name) == but.end()) text += "\n" + setting.name + " " + setting.value;
  }
  return text;
}

}  // namespace

bool are_alike(const ScenarioRow& row, const ScenarioRow& other, const std::vector<std::string>& but) {
  return settings_but(row, but) == settings_but(other, but);
}

std::vector<Rows> rows_alike(const ScenarioTable& table, const std::vector<std::string>& but) {
  std::vector<Rows> groups;
  for (const ScenarioRow& row : table.rows)
    add_to_group(groups, row, [&](const ScenarioRow& other) { return are_alike(other, row, but); });
  return groups;
}

std::int64_t most_gpus(const ScenarioTable& table) {
  std::int64_t most = 1;
  for (const ScenarioRow& row : table.rows) most = std::max(most, row.spec.gpus);
  return most;
}

std::vector<ScalingPoint> scaling_of(Rows rows, Side side) {
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.gpus < b->spec.gpus; });
  const ScenarioRow& base = *rows.front();
  std::vector<ScalingPoint> points;
  for (const ScenarioRow* row : rows) {
    if (row->spec.gpus == base.spec.gpus) continue;
    points.push_back({row, &base, side,
                      speedup_against({step_ms(base, side), base.spec.gpus}, {step_ms(*row, side), row->spec.gpus})});
  }
  return points;
}

}  // namespace pdl
