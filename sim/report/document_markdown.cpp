// A document as GitHub's Markdown: its blocks, then what the columns mean, then its warnings.
#include <algorithm>
#include <set>

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
  return out;
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
  return "";
}

/// Of all tables, each meaning once.
std::string legend_text(const Document& document) {
  std::string text;
  std::set<std::string> said;
  for (const Block& block : document.blocks) {
    const auto* table = std::get_if<Table>(&block);
    if (!table) continue;
    for (const TableColumn& column : table->columns) {
      const std::string line = "* " + printable(column.title) + ": " + printable(column.meaning) + "\n";
      if (!column.meaning.empty() && said.insert(line).second) text += line;
    }
  }
  return text;
}

/// Each text once: "> Warning (hw1_2 row 3; hw3_1 rows 1, 2): ...", apart by lines that end the quotation's paragraph.
std::string warnings_of(const Document& document) {
  std::vector<Warning> warnings;
  for (const Block& block : document.blocks) {
    const auto* warning = std::get_if<Warning>(&block);
    if (!warning) continue;
    const auto found =
        std::find_if(warnings.begin(), warnings.end(), [&](const Warning& w) { return w.text == warning->text; });
    if (found == warnings.end()) {
      warnings.push_back(*warning);
    } else if (!warning->where.empty()) {
      found->where += (found->where.empty() ? "" : "; ") + warning->where;
    }
  }
  std::string text;
  for (const Warning& warning : warnings)
    text += (text.empty() ? "" : "\n") + std::string("> Warning") +
            (warning.where.empty() ? "" : " (" + printable(warning.where) + ")") + ": " + printable(warning.text) +
            "\n";
  return text;
}

}  // namespace

std::string to_markdown(const Document& document) {
  std::string out;
  const auto append = [&](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : "\n") + text;
  };
  for (const Block& block : document.blocks) append(block_text(block));
  append(legend_text(document));
  append(warnings_of(document));
  return out;
}

}  // namespace pdl
