// A document for programs: CSV of its tables, JSON of all but its figures.
#include <cmath>
#include <cstdint>

#include "sim/report/document.hpp"

namespace pdl {
namespace {

using Json = nlohmann::ordered_json;

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// Whole numbers as such; else the shortest text that reads back to the same number.
Json json_number(double value) {
  constexpr double kWholeBelow = 9007199254740992.0;  // 2^53
  if (std::floor(value) == value && std::abs(value) < kWholeBelow) return static_cast<std::int64_t>(value);
  return value;
}

std::string csv_value(const TableCell& cell) {
  if (cell.number) return json_number(*cell.number).dump();
  return cell.text == "-" ? "" : csv_cell(cell.text);
}

std::string table_csv(const Table& table) {
  std::string out;
  for (std::size_t c = 0; c < table.columns.size(); ++c) out += (c == 0 ? "" : ",") + csv_cell(table.columns[c].key);
  out += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c == 0 ? "" : ",") + csv_value(row[c]);
    out += "\n";
  }
  return out;
}

Json json_value(const TableCell& cell) {
  if (cell.number) return json_number(*cell.number);
  return cell.text == "-" ? Json(nullptr) : Json(cell.text);
}

Json table_json(const Table& table) {
  Json columns = Json::array(), rows = Json::array();
  for (const TableColumn& column : table.columns)
    columns.push_back(
        {{"key", column.key}, {"title", column.title}, {"unit", column.unit}, {"meaning", column.meaning}});
  for (const auto& row : table.rows) {
    Json object = Json::object();
    for (std::size_t c = 0; c < row.size(); ++c) object[table.columns[c].key] = json_value(row[c]);
    rows.push_back(std::move(object));
  }
  return {{"name", table.name}, {"title", table.title}, {"columns", columns}, {"rows", rows}};
}

}  // namespace

std::string to_csv(const Document& document) {
  std::string out;
  for (const Block& block : document.blocks) {
    if (const auto* table = std::get_if<Table>(&block)) out += (out.empty() ? "" : "\n") + table_csv(*table);
  }
  return out;
}

Json to_json(const Document& document) {
  Json tables = Json::array(), answers = Json::array(), notes = Json::array(), warnings = Json::array();
  for (const Block& block : document.blocks) {
    if (const auto* table = std::get_if<Table>(&block)) tables.push_back(table_json(*table));
    if (const auto* paragraph = std::get_if<Paragraph>(&block)) notes.push_back(paragraph->text);
    if (const auto* answer = std::get_if<QuestionAnswer>(&block))
      answers.push_back({{"id", answer->id}, {"question", answer->question}, {"answer", answer->text}});
    if (const auto* warning = std::get_if<Warning>(&block))
      warnings.push_back({{"where", warning->where}, {"text", warning->text}});
  }
  return {
      {"title", document.title}, {"tables", tables}, {"answers", answers}, {"notes", notes}, {"warnings", warnings}};
}

}  // namespace pdl
