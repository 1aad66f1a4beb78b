#include "sim/report/scenario_table.hpp"

#include <algorithm>
#include <array>

#include "sim/report/answers.hpp"
#include "sim/report/common_settings.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/terminal.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"

namespace pdl {
namespace {

bool is_left(const ScenarioColumn& column) {
  constexpr std::array kLeft = {"layers", "ops", "schedule", "strategy", "workers", "dtype"};
  return std::find(kLeft.begin(), kLeft.end(), column.name) != kLeft.end();
}

void add_heads(const ScenarioColumn& column, bool with_measured, TextTable& table) {
  if (column.text) {
    table.columns.push_back({column.title, column.unit, is_left(column) ? Align::left : Align::right});
    return;
  }
  if (!column.measured_only) table.columns.push_back({column.title, column.unit.empty() ? "predicted" : "predicted " + column.unit});
  if (!with_measured) return;
  table.columns.push_back({column.title, column.unit.empty() ? "measured" : "measured " + column.unit});
  if (column.with_difference) table.columns.push_back({"difference", "%"});
}

void add_cells(const ScenarioColumn& column, CellPlace cell, bool with_measured, std::vector<std::string>& cells) {
  cell.measured = false;
  if (column.text) {
    cells.push_back(column.text(cell));
    return;
  }
  if (column.text_of_run) {
    if (!column.measured_only) cells.push_back(column.text_of_run(cell));
    cell.measured = true;
    if (with_measured) cells.push_back(cell.scenario_row().measured ? column.text_of_run(cell) : "-");
    return;
  }
  const auto shown = [&](const std::optional<double>& value) { return value ? fixed(*value, column.digits) : "-"; };
  std::optional<double> predicted;
  if (!column.measured_only) cells.push_back(shown(predicted = column.number(cell)));
  if (!with_measured) return;
  std::optional<double> measured;
  if (cell.scenario_row().measured) {
    cell.measured = true;
    measured = column.number(cell);
    cells.push_back(shown(measured));
  } else {
    cells.push_back(column.name == "step_time_ms" ? "predicted only" : "-");
  }
  if (!column.with_difference) return;
  const bool known = predicted && measured && *measured > 0;
  cells.push_back(known ? signed_fixed(100 * (*predicted - *measured) / *measured, 1) : "-");
}

std::vector<const ScenarioColumn*> chosen(const ScenarioTable& table, bool per_gpu) {
  const bool with_measured = table.has_measurements();
  const auto known = scenario_columns();
  std::vector<const ScenarioColumn*> columns;
  for (const std::string& name : table.scenario.columns) {
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& column) { return column.name == name; });
    if (found->per_gpu == per_gpu && (with_measured || !found->measured_only)) columns.push_back(&*found);
  }
  return columns;
}

std::string configuration_table(const ScenarioTable& table) {
  TextTable text{{{"row", ""}}, {}};
  const auto columns = chosen(table, false);
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<std::string> cells = {std::to_string(r + 1)};
    for (const ScenarioColumn* column : columns) add_cells(*column, {table, r, false}, table.has_measurements(), cells);
    text.rows.push_back(std::move(cells));
  }
  return to_text(text);
}

std::string gpu_table(const ScenarioTable& table) {
  const auto columns = chosen(table, true);
  if (columns.empty()) return "";
  TextTable text{{{"row", ""}, {"GPU", ""}}, {}};
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (std::size_t g = 0; g < table.rows[r].predicted.metrics.gpus.size(); ++g) {
      std::vector<std::string> cells = {std::to_string(r + 1), std::to_string(g)};
      for (const ScenarioColumn* column : columns)
        add_cells(*column, {table, r, false, g}, table.has_measurements(), cells);
      text.rows.push_back(std::move(cells));
    }
  }
  return "\n" + to_text(text);
}

std::string legend(const ScenarioTable& table, std::size_t width) {
  std::string text;
  for (const bool per_gpu : {false, true}) {
    for (const ScenarioColumn* column : chosen(table, per_gpu)) {
      if (!column->meaning.empty()) text += wrap("  " + column->meaning, width, 4);
    }
  }
  if (table.has_measurements()) text += wrap("  difference: (predicted - measured) / measured", width, 4);
  return text.empty() ? "" : "\n" + text;
}

std::string common_settings(const ScenarioTable& table, std::size_t width) {
  std::vector<std::vector<SettingValue>> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(to_settings(row.spec));
  return common_settings_text(rows, width);
}

std::string warnings_text(const ScenarioTable& table, std::size_t width) {
  WarningList warnings;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    warnings.add("row " + std::to_string(r + 1), row.predicted.result.warnings);
    if (row.measured) warnings.add("row " + std::to_string(r + 1) + ", measured", row.measured->result.warnings);
  }
  const std::string text = warnings.text(width);
  return text.empty() ? "" : "\n" + text;
}

std::string answer_text(const ScenarioTable& table, std::size_t width) {
  if (table.scenario.answer.empty()) return "";
  std::string text = "\n";
  for (const std::string& sentence : find_answer(table.scenario.answer)->sentences(table))
    text += wrap(sentence, width);
  return text;
}

}  // namespace

bool ScenarioTable::has_measurements() const {
  return std::any_of(rows.begin(), rows.end(), [](const ScenarioRow& row) { return row.measured.has_value(); });
}

std::int32_t most_live(const RunResult& run) {
  std::int32_t most = 0;
  for (const LiveActivations& of_gpu : run.live) most = std::max(most, of_gpu.count);
  return most;
}

std::size_t baseline_row(const ScenarioTable& table, std::size_t row) {
  const RunSpec& spec = table.rows[row].spec;
  const auto same = [&](const ScenarioRow& other) {
    return other.spec.model_name == spec.model_name && other.spec.depth == spec.depth && other.spec.dim == spec.dim &&
           other.spec.batch == spec.batch && other.spec.accum == spec.accum && other.spec.delay_ms == spec.delay_ms;
  };
  return static_cast<std::size_t>(std::find_if(table.rows.begin(), table.rows.end(), same) - table.rows.begin());
}

ForwardTransfers forward_transfers(const RunResult& run) {
  ForwardTransfers transfers;
  std::size_t next = 0;
  for (const Span& span : run.timeline.spans) {
    if (span.kind != TaskKind::send_forward && span.kind != TaskKind::send_backward) continue;
    const std::int64_t bytes = run.transfer_bytes.at(next++);
    if (span.kind != TaskKind::send_forward) continue;
    ++transfers.count;
    transfers.bytes += bytes;
  }
  return transfers;
}

std::string scenario_text(const ScenarioTable& table, std::size_t width) {
  const Scenario& scenario = table.scenario;
  std::string out = scenario.source.empty() ? scenario.title + "\n" : scenario.source + ": " + scenario.title + "\n";
  if (!scenario.question.empty()) out += wrap("question: " + scenario.question, width, 2);
  out += wrap(describe_source(table.rows.front().predicted.result), width, 2) + common_settings(table, width);
  if (!table.has_measurements())
    out += "no measured runs of these configurations beside this profile: predicted only\n";
  return out + "\n" + configuration_table(table) + gpu_table(table) + legend(table, width) +
         warnings_text(table, width) + answer_text(table, width);
}

}  // namespace pdl
