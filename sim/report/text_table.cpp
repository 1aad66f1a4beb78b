// Tables as text: the width of a column is that of its longest cell.
#include "sim/report/text_table.hpp"

#include <algorithm>
#include <sstream>

#include "sim/io/printable_text.hpp"

namespace pdl {
namespace {

void append_line(std::string& out, const TextTable& table, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line += "  ";
    const std::string padding(widths[c] - cells[c].size(), ' ');
    line += table.columns[c].align == Align::right ? padding + cells[c] : cells[c] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

/// The lines of the head, the units last.
std::vector<std::vector<std::string>> head_of(const TextTable& table) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> units;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::istringstream title(table.columns[c].title);
    std::string line;
    for (std::size_t l = 0; std::getline(title, line); ++l) {
      if (l == lines.size()) lines.emplace_back(table.columns.size());
      lines[l][c] = line;
    }
    units.push_back(table.columns[c].unit);
  }
  if (std::any_of(units.begin(), units.end(), [](const std::string& unit) { return !unit.empty(); }))
    lines.push_back(units);
  return lines;
}

/// Cells may hold names of files. Line ends in titles are the table's own.
TextTable printable_cells(TextTable table) {
  for (auto& row : table.rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  return table;
}

}  // namespace

std::string to_text(const TextTable& given) {
  const TextTable table = printable_cells(given);
  const std::vector<std::vector<std::string>> head = head_of(table);
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : head) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& line : head) append_line(out, table, widths, line);
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width + 2;
  out += std::string(total > 2 ? total - 2 : 0, '-') + "\n";
  for (const auto& row : table.rows) append_line(out, table, widths, row);
  return out;
}

std::string to_markdown(const TextTable& given) {
  const TextTable table = printable_cells(given);
  const auto escaped = [](const std::string& cell) {
    std::string out;
    for (const char c : cell) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
  };
  std::string out = "|", rule = "|";
  for (const TextColumn& column : table.columns) {
    std::string title = column.title;
    std::replace(title.begin(), title.end(), '\n', ' ');
    out += " " + escaped(title + (column.unit.empty() ? "" : " (" + column.unit + ")")) + " |";
    rule += column.align == Align::right ? "---:|" : ":---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const std::string& cell : row) out += " " + escaped(cell) + " |";
    out += "\n";
  }
  return out;
}

}  // namespace pdl
