#include "sim/report/scenario_document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/scenario_cells.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/report/scenario_figures.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/common_settings.hpp"

namespace pdl {
namespace {

std::vector<SettingValue> settings_of_all_rows(const ScenarioTable& table) {
  std::vector<std::vector<SettingValue>> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(to_settings(row.spec));
  for (const LeftOutRow& row : table.scenario.left_out) rows.push_back(to_settings(row.spec));
  return common_settings(rows);
}

/// Those that the scenario or the user names: "all rows: strategy ddp, batch 64".
std::string settings_text(const ScenarioTable& table) {
  const std::vector<std::string>& named = table.scenario.named;
  std::string text;
  for (const SettingValue& setting : settings_of_all_rows(table)) {
    if (std::find(named.begin(), named.end(), setting.name) != named.end())
      text += (text.empty() ? "" : ", ") + setting.name + " " + setting.value;
  }
  return text.empty() ? "" : "all rows: " + text;
}

std::string fact(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) return "";
  return object[key].is_string() ? object[key].get<std::string>() : object[key].dump();
}

bool is_on_cpu(const ScenarioTable& table) {
  const nlohmann::json& environment = table.rows.front().predicted.result.environment;
  return environment.is_object() && environment.contains("profile") && fact(environment["profile"], "device") == "cpu";
}

/// A row that is shown: its place in the scenario's table, and its number, by which all tables of the exercise name it.
struct ShownRow {
  std::size_t row;
  std::size_t number;
};
using ShownRows = std::vector<ShownRow>;

bool has_measured(const ScenarioTable& table, const ShownRow& shown) {
  return table.rows[shown.row].measured.has_value();
}

bool has_measured_by_other(const ScenarioTable& table, const ShownRow& shown) {
  const auto& other = table.rows[shown.row].other;
  return other && other->measured;
}

/// "6 of 8 rows measured"; "6 of 8 rows measured by pdl-run, 5 by PyTorch; ..."
std::string measured_text(const ScenarioTable& table, const ShownRows& shown) {
  const auto count = [&](bool (*has)(const ScenarioTable&, const ShownRow&)) {
    return std::count_if(shown.begin(), shown.end(), [&](const ShownRow& row) { return has(table, row); });
  };
  const auto measured = count(has_measured), by_other = count(has_measured_by_other);
  if (measured == 0 && by_other == 0) return "predicted only";
  const std::string text = std::to_string(measured > 0 ? measured : by_other) + " of " + std::to_string(shown.size()) +
                           (shown.size() == 1 ? " row" : " rows") + " measured";
  if (!table.other_program()) return text;
  const std::string own = program_name(table.program()), other = program_name(*table.other_program());
  const std::string by_both = measured > 0 ? own + ", " + std::to_string(by_other) + " by " + other : other;
  return text + " by " + by_both + "; columns that name no program are of " + own;
}

/// "machine: h200x4 (4 x NVIDIA H200), 6 of 8 rows measured"
std::string machine_text(const ScenarioTable& table, const ShownRows& shown) {
  const RunResult& first = table.rows.front().predicted.result;
  const std::string rows = measured_text(table, shown);
  if (first.spec.synthetic) return describe_source(first);
  const nlohmann::json& environment = first.environment;
  const nlohmann::json profile =
      environment.is_object() && environment.contains("profile") ? environment["profile"] : nlohmann::json{};
  return "machine: " + table.profile_name + " (" + fact(profile, "count") + " x " + fact(profile, "card") + "), " +
         rows;
}

/// Columns whose setting every row has with the same value: the line above the table says it. Of one row all settings
/// are the same: its columns stay, and the table says what it is about.
std::vector<const ScenarioColumn*> shown_columns(const ScenarioTable& table) {
  std::vector<std::string> said;
  if (table.rows.size() + table.scenario.left_out.size() > 1) {
    for (const SettingValue& setting : settings_of_all_rows(table)) {
      said.push_back(setting.name);
      std::replace(said.back().begin(), said.back().end(), '-', '_');
    }
  }
  std::vector<const ScenarioColumn*> columns;
  for (const std::string& name : table.scenario.columns) {
    const auto known = scenario_columns();
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& column) { return column.name == name; });
    const bool is_said = std::find(said.begin(), said.end(), name) != said.end();
    if (!is_said && (table.has_measurements() || !found->measured_only)) columns.push_back(&*found);
  }
  return columns;
}

/// Measured and predicted numbers stand in this column: the predicted ones are marked.
bool is_mixed(const ScenarioColumn& column) {
  return !column.setting && !column.with_error && !column.measured_only;
}

using Columns = std::vector<const ScenarioColumn*>;

constexpr const char* kMixedColumns = "where a column has measured and predicted numbers, p marks the predicted ones";

/// A row a configuration, or with columns of GPUs a row a GPU of each. `rows`: which.
Table table_of(const ScenarioTable& scenario, const ShownRows& rows, const Columns& columns, const std::string& name) {
  const bool of_gpus = std::any_of(columns.begin(), columns.end(), [](auto* column) { return column->per_gpu; });
  const bool measured = scenario.has_measurements();
  const bool marked =
      measured && std::any_of(columns.begin(), columns.end(), [](auto* column) { return is_mixed(*column); }) &&
      std::any_of(rows.begin(), rows.end(), [&](const ShownRow& row) { return !has_measured(scenario, row); });
  Table table{.name = name, .columns = {{"row", "row", "", marked ? kMixedColumns : ""}}};
  if (of_gpus) table.columns.push_back({"gpu", "GPU"});
  table.key_columns = table.columns.size();
  for (const ScenarioColumn* column : columns) add_columns(*column, scenario, table);

  const std::vector<LeftOutRow>& left_out = scenario.scenario.left_out;
  std::size_t place = scenario.of_further_machine ? left_out.size() : 0;
  const auto add_left_out = [&](std::size_t before) {
    for (; place < left_out.size() && left_out[place].number < before; ++place)
      table.rows.push_back(cells_left_out(place, scenario, columns, of_gpus));
  };
  for (const auto& [r, number] : rows) {
    add_left_out(number);
    const std::size_t gpus = of_gpus ? scenario.rows[r].predicted.metrics.gpus.size() : 1;
    for (std::size_t g = 0; g < gpus; ++g) {
      std::vector<TableCell> cells = {TableCell(std::to_string(number), static_cast<double>(number))};
      if (of_gpus) cells.emplace_back(std::to_string(g), static_cast<double>(g));
      for (const ScenarioColumn* column : columns) add_cells(*column, {scenario, r, false, g}, measured, cells);
      table.rows.push_back(std::move(cells));
    }
  }
  add_left_out(std::numeric_limits<std::size_t>::max());
  return table;
}

/// As the first table numbers it; one that the first has not comes behind those.
std::size_t number_of(const Tables& tables, const ScenarioTable& table, std::size_t r) {
  const std::vector<ScenarioRow>& first = tables.front().rows;
  if (&table == &tables.front()) return row_number(table, r);
  const auto found =
      std::find_if(first.begin(), first.end(), [&](auto& row) { return same_run(row.spec, table.rows[r].spec); });
  return row_number(tables.front(), static_cast<std::size_t>(found - first.begin())) + (found == first.end() ? r : 0);
}

using HasMeasured = bool (*)(const ScenarioTable&, const ShownRow&);

/// By a table before the t-th.
bool measured_before(const Tables& tables, std::size_t t, const RunSpec& spec, HasMeasured has) {
  for (std::size_t before = 0; before < t; ++before) {
    const ScenarioTable& table = tables[before];
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      if (has(table, {r, 0}) && same_run(table.rows[r].spec, spec)) return true;
    }
  }
  return false;
}

/// Rows of the t-th table that no table before it has measured, by one of the programs: all of the first.
ShownRows new_rows(const Tables& tables, std::size_t t) {
  const ScenarioTable& table = tables[t];
  ShownRows rows;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto is_new = [&](HasMeasured has) {
      return has(table, {r, 0}) && !measured_before(tables, t, table.rows[r].spec, has);
    };
    if (t == 0 || is_new(has_measured) || is_new(has_measured_by_other))
      rows.push_back({r, number_of(tables, table, r)});
  }
  return rows;
}

/// Of a further table: some of its rows are in one before it too, measured by the other program.
bool repeats_rows(const Tables& tables, std::size_t t, const ShownRows& rows) {
  return std::any_of(rows.begin(), rows.end(), [&](const ShownRow& row) {
    const RunSpec& spec = tables[t].rows[row.row].spec;
    return measured_before(tables, t, spec, has_measured) || measured_before(tables, t, spec, has_measured_by_other);
  });
}

/// One table; two, the second a row a GPU, where the cells of a configuration would be said again for each of its GPUs.
/// `t`: which machine of the exercise.
std::vector<Table> tables_of(const Tables& tables, std::size_t t, const ShownRows& rows) {
  const ScenarioTable& scenario = tables[t];
  constexpr std::size_t kFewColumns = 3;
  const Columns all = shown_columns(scenario);
  Columns of_rows, of_gpus;
  for (const ScenarioColumn* column : all) (column->per_gpu ? of_gpus : of_rows).push_back(column);
  const std::string name = scenario.scenario.id + (t > 0 ? "_" + std::to_string(t + 1) : "");
  if (of_gpus.empty() || of_rows.size() <= kFewColumns || scenario.rows.size() == 1)
    return {table_of(scenario, rows, all, name)};
  return {table_of(scenario, rows, of_rows, name), table_of(scenario, rows, of_gpus, name + "_gpus")};
}

/// "row 1", "rows 1, 3"; of many rows only how many they are.
std::string rows_text(const std::vector<std::size_t>& rows) {
  constexpr std::size_t kMostNamed = 6;
  if (rows.size() > kMostNamed) return std::to_string(rows.size()) + " rows";
  std::string text = rows.size() == 1 ? "row " : "rows ";
  for (const std::size_t row : rows) text += (row == rows.front() ? "" : ", ") + std::to_string(row);
  return text;
}

/// Shares read off a recorded step that was unlike the others, where the table has such a column.
void warn_of_recordings(const ScenarioTable& table, const ShownRows& shown, const std::string& exercise,
                        Document& document) {
  const auto columns = shown_columns(table);
  if (std::none_of(columns.begin(), columns.end(), [](auto* column) { return column->of_spans; })) return;
  std::vector<std::size_t> rows;
  double most = 0;
  for (const auto& [r, number] : shown) {
    const auto more = table.rows[r].measured ? unusual_recording(table.rows[r].measured->result) : std::nullopt;
    if (!more) continue;
    rows.push_back(number);
    if (std::abs(*more) > std::abs(most)) most = *more;
  }
  if (rows.empty()) return;
  document.add(Warning{"the recorded step, of which the shares of the step are, took up to " +
                           signed_fixed(100 * most, 0) + " % against the median step",
                       exercise + rows_text(rows)});
}

/// `exercise`: "hw1_2 " in a book.
void add_warnings(const ScenarioTable& table, const ShownRows& shown, const std::string& exercise, Document& document) {
  warn_of_recordings(table, shown, exercise, document);
  WarningList warnings(exercise + "row");
  for (const auto& [r, number] : shown) {
    const ScenarioRow& row = table.rows[r];
    warnings.add(std::to_string(number), row.predicted.result.warnings, row.predicted.result.warning_shares);
    if (row.measured) warnings.add(std::to_string(number) + " (measured)", row.measured->result.warnings);
    if (!row.other) continue;
    const std::string by_other = std::to_string(number) + " (" + program_name(other_of(table.program()));
    if (const auto& run = row.other->predicted)
      warnings.add(by_other + ")", run->result.warnings, run->result.warning_shares);
    if (row.other->measured) warnings.add(by_other + ", measured)", row.other->measured->result.warnings);
  }
  warnings.add_to(document);
}

/// Rows that a program does not run, by the reason.
class MissingRows {
 public:
  explicit MissingRows(ProgramOf program) : program_(program) {}

  void add(const std::string& reason, std::size_t number) {
    const auto known = std::find_if(reasons_.begin(), reasons_.end(), [&](auto& r) { return r.first == reason; });
    if (known == reasons_.end()) {
      reasons_.push_back({reason, {number}});
    } else {
      known->second.push_back(number);
    }
  }

  /// "not by PyTorch: rows 3, 5: found schedule zb-h1 with program pytorch, expected ..."
  void add_to(Document& document) const {
    for (const auto& [reason, rows] : reasons_)
      document.add(Paragraph{"not by " + program_name(program_) + ": " + rows_text(rows) + ": " + reason, 2});
  }

 private:
  ProgramOf program_;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> reasons_;
};

/// Below the table: why rows have - in the columns of one of the programs, each reason once.
void add_missing_rows(const ScenarioTable& table, const ShownRows& shown, Document& document) {
  MissingRows own(table.program()), other(other_of(table.program()));
  if (!table.of_further_machine) {
    for (const LeftOutRow& row : table.scenario.left_out) own.add(row.reason, row.number);
  }
  for (const auto& [r, number] : shown) {
    const auto& by_other = table.rows[r].other;
    if (by_other && !by_other->why_not.empty()) other.add(by_other->why_not, number);
  }
  own.add_to(document);
  other.add_to(document);
}

std::string title_of(const Scenario& scenario) {
  return scenario.source.empty() ? scenario.title : scenario.source + ": " + scenario.title;
}

/// `in_book`: warnings name the exercise.
void add_exercise(const Tables& tables, bool in_book, Document& document) {
  const ScenarioTable& first = tables.front();
  const Scenario& scenario = first.scenario;
  document.add(Heading{title_of(scenario), in_book ? 2 : 1});
  for (const KeyedAnswer& answer : answers_of(scenario.answer, tables))
    document.add(QuestionAnswer{answer.id, answer.question, answer.text});
  if (!scenario.python.empty()) document.add(Paragraph{"The same in plain PyTorch: " + scenario.python});
  for (const ChartFigure& figure : scenario_figures(tables)) document.add(figure);
  const std::string place = in_book ? scenario.id + " " : "";
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const std::string settings = settings_text(tables[t]);
    const ShownRows rows = new_rows(tables, t);
    if (rows.empty()) continue;
    const std::string further =
        repeats_rows(tables, t, rows) ? "further runs, on another " : "further rows, measured by another ";
    document.add(Paragraph{
        (t == 0 ? "" : further) + machine_text(tables[t], rows) + (settings.empty() ? "" : "; " + settings), 2});
    if (t == 0 && is_on_cpu(tables[t]))
      document.add(
          Paragraph{"On a CPU the host computes itself: every step is host-bound, and a \"GPU\" is a process "
                    "or thread that shares the processor's cores with the others."});
    for (const Table& table : tables_of(tables, t, rows)) document.add(table);
    add_missing_rows(tables[t], rows, document);
    add_warnings(tables[t], rows, place, document);
  }
}

}  // namespace

Document scenario_document(const std::vector<Tables>& exercises) {
  const bool book = exercises.size() > 1;
  Document document{.title = book ? "Exercises" : title_of(exercises.front().front().scenario)};
  if (book) document.add(Heading{document.title, 1});
  for (const Tables& tables : exercises) add_exercise(tables, book, document);
  return document;
}

}  // namespace pdl
