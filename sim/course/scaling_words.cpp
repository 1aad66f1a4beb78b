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

std::string speedups_text(const std::vector<ScalingPoint>& points) {
  std::vector<std::string> items;
  for (const ScalingPoint& point : points) {
    items.push_back(times(point.gain.speedup) + " on " + gpus_of(*point.row) + " (efficiency " +
                    whole_percent(point.gain.efficiency) + ")");
  }
  const std::string kind = name(points.front().side);
  return listed(items) + " as fast as on " + gpus_of(*points.front().base) + " (" + kind + " against " + kind + ")";
}

std::string disagreement_text(const Rows& rows) {
  std::vector<std::string> items;
  if (side_of(rows) == Side::predicted) return "";
  const auto predicted = scaling_of(rows, Side::predicted);
  for (const ScalingPoint& own : scaling_of(rows, Side::measured)) {
    const auto other =
        std::find_if(predicted.begin(), predicted.end(), [&](const ScalingPoint& p) { return p.row == own.row; });
    const double measured = own.gain.speedup, as_predicted = other->gain.speedup;
    if ((measured > 1) == (as_predicted > 1) || std::abs(measured - as_predicted) < kTellable) continue;
    items.push_back(fixed(measured, 2) + " and " + fixed(as_predicted, 2) + " times as fast on " + gpus_of(*own.row));
  }
  return items.empty() ? "" : " Measured and predicted disagree on whether more GPUs help: " + listed(items) + ".";
}

std::string drop_text(const std::vector<ScalingPoint>& points) {
  const std::int64_t fewest = points.front().base->spec.gpus;
  double before = 1, most = 0;
  std::int64_t from = fewest, at_from = fewest, at_to = fewest;
  double level_from = 1, level_to = 1;
  for (const ScalingPoint& point : points) {
    if (before - point.gain.efficiency > most) {
      most = before - point.gain.efficiency;
      at_from = from;
      at_to = point.row->spec.gpus;
      level_from = before;
      level_to = point.gain.efficiency;
    }
    before = point.gain.efficiency;
    from = point.row->spec.gpus;
  }
  const std::string kind = " (" + name(points.front().side) + ")";
  if (most <= 0) return "The efficiency never drops" + kind + ".";
  return "The efficiency drops most from " + std::to_string(at_from) + " to " + count_of(at_to, "GPU") + ": from " +
         whole_percent(level_from) + " to " + whole_percent(level_to) + kind + ".";
}

std::string host_bound_note(const Rows& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](auto* row) { return is_host_bound(*row); })) return "";
  return " Host-bound: tasks have waits for the host inside, and what they would hide says nothing about computation.";
}

std::string spread_text(const ScenarioRow& row) {
  const StepTime& time = row.measured->result.step_time;
  if (!time.p25_ms || !time.p75_ms) return "not known";
  return percent((*time.p75_ms - *time.p25_ms) / time.median_ms);
}

}  // namespace pdl
