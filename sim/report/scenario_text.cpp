#include "sim/report/scenario_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <sstream>

#include "sim/course/answers.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/common_settings_text.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/report/text_table.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/study/common_settings.hpp"

namespace pdl {
namespace {

bool is_left(const ScenarioColumn& column) {
  constexpr std::array kLeft = {"layers", "ops", "schedule", "strategy", "workers", "dtype"};
  return std::find(kLeft.begin(), kLeft.end(), column.name) != kLeft.end();
}

/// Words of a head: "predicted", or "pred." where a table would be wider than a screen.
struct HeadWords {
  std::string predicted = "predicted", measured = "measured";
};
constexpr std::size_t kWidestTable = 140;

bool is_unusual(const ScenarioRow& row) {
  return row.measured && unusual_recording(row.measured->result).has_value();
}

bool has_unusual_recordings(const ScenarioTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), is_unusual);
}

void add_heads(const ScenarioColumn& column, bool with_measured, const HeadWords& words, TextTable& table) {
  if (column.text) {
    table.columns.push_back({column.title, column.unit, is_left(column) ? Align::left : Align::right});
    return;
  }
  if (!column.measured_only) table.columns.push_back({column.title + "\n" + words.predicted, column.unit});
  if (!with_measured) return;
  table.columns.push_back({column.title + "\n" + words.measured, column.unit});
  if (column.with_error) table.columns.push_back({"error", "%"});
}

/// A measured cell of a column that is read off spans, marked where they are of an unusual step; the others of such a
/// column leave room for the mark.
std::string with_mark(const ScenarioColumn& column, const CellPlace& cell, const std::string& text) {
  if (!column.of_spans || !has_unusual_recordings(cell.table)) return text;
  return text + (is_unusual(cell.scenario_row()) ? " r" : "  ");
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
    if (with_measured)
      cells.push_back(with_mark(column, cell, cell.scenario_row().measured ? column.text_of_run(cell) : "-"));
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
    cells.push_back(with_mark(column, cell, shown(measured)));
  } else {
    cells.push_back(with_mark(column, cell, "-"));
  }
  if (!column.with_error) return;
  const bool known = predicted && measured && *measured > 0;
  cells.push_back(known ? signed_fixed(100 * (*predicted - *measured) / *measured, 1) : "-");
}

std::vector<std::vector<SettingValue>> settings_of_rows(const ScenarioTable& table) {
  std::vector<std::vector<SettingValue>> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(to_settings(row.spec));
  return rows;
}

/// Names of the columns whose setting every row has with the same value: the line above the table says it. Of one row
/// all settings are the same: its columns stay, and the table says what it is about.
std::vector<std::string> said_above(const ScenarioTable& table) {
  std::vector<std::string> columns;
  if (table.rows.size() < 2) return columns;
  for (const SettingValue& setting : common_settings(settings_of_rows(table))) {
    std::string name = setting.name;
    std::replace(name.begin(), name.end(), '-', '_');
    columns.push_back(name);
  }
  return columns;
}

std::vector<const ScenarioColumn*> chosen(const ScenarioTable& table, bool per_gpu) {
  const bool with_measured = table.has_measurements();
  const auto known = scenario_columns();
  const std::vector<std::string> said = said_above(table);
  std::vector<const ScenarioColumn*> columns;
  for (const std::string& name : table.scenario.columns) {
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& column) { return column.name == name; });
    if (std::find(said.begin(), said.end(), name) != said.end()) continue;
    if (found->per_gpu == per_gpu && (with_measured || !found->measured_only)) columns.push_back(&*found);
  }
  return columns;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

struct FittedText {
  std::string text;
  bool short_words = false;
};

/// A table, with short words in its head if it would be too wide with long ones.
FittedText fitted(const std::function<TextTable(const HeadWords&)>& table) {
  const std::string text = to_text(table({}));
  if (widest_line(text) <= kWidestTable) return {text, false};
  return {to_text(table({"pred.", "meas."})), true};
}

TextTable configuration_table(const ScenarioTable& table, const HeadWords& words) {
  TextTable text{{{"row", ""}}, {}};
  const auto columns = chosen(table, false);
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), words, text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<std::string> cells = {std::to_string(r + 1)};
    for (const ScenarioColumn* column : columns) add_cells(*column, {table, r, false}, table.has_measurements(), cells);
    text.rows.push_back(std::move(cells));
  }
  return text;
}

TextTable gpu_table(const ScenarioTable& table, const HeadWords& words) {
  const auto columns = chosen(table, true);
  TextTable text{{{"row", ""}, {"GPU", ""}}, {}};
  for (const ScenarioColumn* column : columns) add_heads(*column, table.has_measurements(), words, text);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (std::size_t g = 0; g < table.rows[r].predicted.metrics.gpus.size(); ++g) {
      std::vector<std::string> cells = {std::to_string(r + 1), std::to_string(g)};
      for (const ScenarioColumn* column : columns)
        add_cells(*column, {table, r, false, g}, table.has_measurements(), cells);
      text.rows.push_back(std::move(cells));
    }
  }
  return text;
}

/// `short_words`: in one of the two at least.
FittedText tables_text(const ScenarioTable& table) {
  const FittedText rows = fitted([&](const HeadWords& words) { return configuration_table(table, words); });
  if (chosen(table, true).empty()) return rows;
  const FittedText gpus = fitted([&](const HeadWords& words) { return gpu_table(table, words); });
  return {rows.text + "\n" + gpus.text, rows.short_words || gpus.short_words};
}

/// What is said of no single column.
std::string words_and_signs(bool with_measured, bool short_words) {
  if (!with_measured) return short_words ? "pred.: predicted" : "";
  return std::string("error: (predicted - measured) / measured; ") +
         (short_words ? "pred.: predicted; meas.: measured; " : "") + "-: not measured, or without meaning in this row";
}

/// "r: ...", where a column shown has the mark.
std::string meaning_of_mark(const ScenarioTable& table) {
  const auto of_spans = [&](bool per_gpu) {
    const auto columns = chosen(table, per_gpu);
    return std::any_of(columns.begin(), columns.end(), [](const ScenarioColumn* column) { return column->of_spans; });
  };
  if (!has_unusual_recordings(table) || (!of_spans(false) && !of_spans(true))) return "";
  std::string rows;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (!is_unusual(table.rows[r])) continue;
    rows += (rows.empty() ? "row " : ", row ") + std::to_string(r + 1) + " " +
            signed_fixed(100 * *unusual_recording(table.rows[r].measured->result), 0) + " %";
  }
  return "r: of one recorded step that took more than " + to_text(100 * kRecordingTolerance) +
         " % longer or shorter than the median step, which this share need not be like: " + rows;
}

/// Speed-ups refer to the first row with the same work: on fewer GPUs, or on as many with another strategy, which is
/// said.
std::string meaning_of(const ScenarioTable& table, const ScenarioColumn& column) {
  if (column.name != "speedup") return column.meaning;
  const ScenarioRow* base = nullptr;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const ScenarioRow &row = table.rows[r], &own = table.rows[baseline_row(table, r)];
    if (&row == &own) continue;
    if (row.spec.gpus != own.spec.gpus || row.spec.strategy == own.spec.strategy) return column.meaning;
    if (base && base->spec.strategy != own.spec.strategy) return column.meaning;
    base = &own;
  }
  if (!base) return column.meaning;
  return "speed-up: step time of " + to_string(base->spec.strategy) +
         " on the same GPUs, with this model and batch / that of this row";
}

std::string legend(const ScenarioTable& table, bool short_words, std::size_t width) {
  std::string text;
  for (const bool per_gpu : {false, true}) {
    for (const ScenarioColumn* column : chosen(table, per_gpu)) {
      if (const std::string meaning = meaning_of(table, *column); !meaning.empty())
        text += wrap("  " + meaning, width, 4);
    }
  }
  if (const std::string mark = meaning_of_mark(table); !mark.empty()) text += wrap("  " + mark, width, 4);
  const std::string words = words_and_signs(table.has_measurements(), short_words);
  if (!words.empty()) text += wrap("  " + words, width, 4);
  return text.empty() ? "" : "\n" + text;
}

std::string warnings_text(const ScenarioTable& table, std::size_t width) {
  WarningList warnings("row");
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    warnings.add(std::to_string(r + 1), row.predicted.result.warnings, row.predicted.result.warning_shares);
    if (row.measured) warnings.add(std::to_string(r + 1) + " (measured)", row.measured->result.warnings);
  }
  Document document;
  warnings.add_to(document);
  const std::string text = to_terminal(document, {.width = width});
  return text.empty() ? "" : "\n" + text;
}

std::string answer_text(const ScenarioTable& table, std::size_t width) {
  std::string text;
  for (const std::string& sentence : answer_sentences(table)) text += wrap(sentence, width);
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

ScenarioNames scenario_names() {
  ScenarioNames names;
  for (const ScenarioColumn& column : scenario_columns()) names.columns.push_back(column.name);
  for (const Answer& answer : answers()) names.answers.push_back(answer.name);
  return names;
}

std::string scenario_text(const ScenarioTable& table, std::size_t width) {
  const Scenario& scenario = table.scenario;
  const std::string title = scenario.source.empty() ? scenario.title : scenario.source + ": " + scenario.title;
  std::string out =
      wrap(title + (table.of_further_machine ? "; the rows that a further machine has measured" : ""), width, 2);
  if (!scenario.question.empty() && !table.of_further_machine) out += wrap("question: " + scenario.question, width, 2);
  out += wrap(describe_source(table.rows.front().predicted.result), width, 2) +
         common_settings_text(settings_of_rows(table), width);
  if (!table.has_measurements())
    out += "no measured runs of these configurations beside this profile: predicted only\n";
  const FittedText tables = tables_text(table);
  return out + "\n" + tables.text + legend(table, tables.short_words, width) + warnings_text(table, width) +
         answer_text(table, width);
}

}  // namespace pdl
