// A document as GitHub's Markdown.
#include <algorithm>

#include "sim/io/printable_text.hpp"
#include "sim/report/document.hpp"

namespace pdl {
namespace {

std::string markdown_escaped(const std::string& cell) {
  std::string out;
  for (const char c : printable(cell)) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string table_text(const Table& table) {
  std::string out = table.title.empty() ? "|" : printable(table.title) + "\n\n|", rule = "|";
  for (const TableColumn& column : table.columns) {
    out += " " + markdown_escaped(column.title + (column.unit.empty() ? "" : " (" + column.unit + ")")) + " |";
    rule += column.align == Align::right ? "---:|" : ":---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const TableCell& cell : row) out += " " + markdown_escaped(cell.text) + " |";
    out += "\n";
  }
  std::string legend;
  for (const TableColumn& column : table.columns) {
    if (!column.meaning.empty()) legend += "* " + printable(column.title) + ": " + printable(column.meaning) + "\n";
  }
  return out + (legend.empty() ? "" : "\n" + legend);
}

std::string block_text(const Block& block) {
  if (const auto* heading = std::get_if<Heading>(&block))
    return std::string(static_cast<std::size_t>(heading->level), '#') + " " + printable(heading->text) + "\n";
  if (const auto* paragraph = std::get_if<Paragraph>(&block)) return printable(paragraph->text) + "\n";
  if (const auto* lines = std::get_if<Preformatted>(&block))
    return lines->terminal_only ? "" : "```\n" + lines->text + "```\n";
  if (const auto* table = std::get_if<Table>(&block)) return table_text(*table);
  if (const auto* answer = std::get_if<QuestionAnswer>(&block))
    return "**" + answer->id + "** " + printable(answer->question) + " " + printable(answer->text) + "\n";
  if (const auto* warning = std::get_if<Warning>(&block))
    return "> Warning" + (warning->where.empty() ? "" : " (" + printable(warning->where) + ")") + ": " +
           printable(warning->text) + "\n";
  return "";
}

}  // namespace

std::string to_markdown(const Document& document) {
  std::string out;
  for (const Block& block : document.blocks) {
    const std::string text = block_text(block);
    if (!text.empty()) out += (out.empty() ? "" : "\n") + text;
  }
  return out;
}

}  // namespace pdl
