#include "sim/report/html.hpp"

#include "sim/io/printable_text.hpp"

namespace pdl {
namespace {

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string table_html(const Table& table) {
  std::string out = "<table><caption>" + html_escaped(table.title) + "</caption><thead><tr>";
  for (const TableColumn& column : table.columns)
    out += "<th>" + html_escaped(column.title + (column.unit.empty() ? "" : " (" + column.unit + ")")) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const TableCell& cell : row) out += "<td>" + html_escaped(cell.text) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string block_html(const Block& block) {
  if (const auto* heading = std::get_if<Heading>(&block)) {
    const std::string tag = "h" + std::to_string(heading->level);
    return "<" + tag + ">" + html_escaped(heading->text) + "</" + tag + ">\n";
  }
  if (const auto* paragraph = std::get_if<Paragraph>(&block)) return "<p>" + html_escaped(paragraph->text) + "</p>\n";
  if (const auto* table = std::get_if<Table>(&block)) return table_html(*table);
  return "";
}

}  // namespace

std::string to_html(const Document& document) {
  std::string body;
  for (const Block& block : document.blocks) body += block_html(block);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + html_escaped(document.title) +
         "</title></head><body>\n" + body + "</body></html>\n";
}

}  // namespace pdl
