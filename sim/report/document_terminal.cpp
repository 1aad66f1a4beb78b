// A document on a terminal. A table that is too wide first breaks its heads into two lines, then continues below
// itself, its key columns repeated:
//
//   row  step time (ms)  bubble (%)        row  step time  bubble        row  step time
//   -------------------------------               (ms)     (%)                     (ms)
//     1          93.021        60.2  ->    -----------------------  ->   --------------
//                                            1     93.021    60.2         1     93.021
//
//                                                                       row  bubble (%)
//                                                                       ---------------
//                                                                         1        60.2
//
// Before that, columns of sentences (TableColumn::wraps) have their cells broken into lines.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>

#include "sim/io/printable_text.hpp"
#include "sim/report/document.hpp"
#include "sim/report/wrap.hpp"

namespace pdl {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kWarningsShown = 3;

std::string head_text(const TableColumn& column) {
  if (column.unit.empty()) return column.title;
  return column.title.empty() ? "(" + column.unit + ")" : column.title + " (" + column.unit + ")";
}

/// Broken at the space that makes the longer of the two lines shortest, the last such; {head} where there is none.
std::vector<std::string> in_two_lines(const std::string& head) {
  std::vector<std::string> best = {head};
  for (std::size_t at = head.find(' '); at != std::string::npos; at = head.find(' ', at + 1)) {
    const std::vector<std::string> lines = {head.substr(0, at), head.substr(at + 1)};
    const auto longest = [](const std::vector<std::string>& of) {
      std::size_t length = 0;
      for (const std::string& line : of) length = std::max(length, line.size());
      return length;
    };
    if (longest(lines) <= longest(best)) best = lines;
  }
  return best;
}

/// Characters, not bytes: UTF-8 continuation bytes take no column.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

struct LaidOutColumn {
  std::vector<std::string> head;                // one line or two
  std::vector<std::vector<std::string>> cells;  // lines of each, printable; one but where the column wraps
  std::size_t width = 0;
};

std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  std::istringstream in(wrap(text, width));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines.empty() ? std::vector<std::string>{""} : lines;
}

/// `wrap_at`: columns of a cell that wraps; 0: in one line.
LaidOutColumn lay_out(const Table& table, std::size_t c, bool two_lines, std::size_t wrap_at = 0) {
  LaidOutColumn column;
  std::size_t body = 0;
  for (const auto& row : table.rows) {
    const std::string cell = printable(row[c].text);
    column.cells.push_back(wrap_at > 0 ? lines_of(cell, wrap_at) : std::vector{cell});
    for (const std::string& line : column.cells.back()) body = std::max(body, columns_of(line));
  }
  const std::string head = head_text(table.columns[c]);
  // A head that is no wider than its cells gains nothing by a second line.
  column.head = two_lines && columns_of(head) > body ? in_two_lines(head) : std::vector{head};
  column.width = body;
  for (const std::string& line : column.head) column.width = std::max(column.width, columns_of(line));
  return column;
}

std::size_t total_width(const std::vector<LaidOutColumn>& columns, const std::vector<std::size_t>& chosen) {
  std::size_t total = 0;
  for (const std::size_t c : chosen) total += columns[c].width + kGap;
  return total > kGap ? total - kGap : 0;
}

void append_line(std::string& out, const Table& table, const std::vector<LaidOutColumn>& columns,
                 const std::vector<std::size_t>& chosen, const std::function<std::string(std::size_t)>& cell) {
  std::string line;
  for (const std::size_t c : chosen) {
    if (c != chosen.front()) line += std::string(kGap, ' ');
    const std::string text = cell(c);
    const std::string padding(columns[c].width - columns_of(text), ' ');
    line += table.columns[c].align == Align::right ? padding + text : text + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

/// A cell of several lines makes a row of several lines.
void append_row(std::string& out, const Table& table, const std::vector<LaidOutColumn>& columns,
                const std::vector<std::size_t>& chosen, std::size_t r) {
  std::size_t lines = 1;
  for (const std::size_t c : chosen) lines = std::max(lines, columns[c].cells[r].size());
  for (std::size_t l = 0; l < lines; ++l) {
    append_line(out, table, columns, chosen,
                [&](std::size_t c) { return l < columns[c].cells[r].size() ? columns[c].cells[r][l] : std::string(); });
  }
}

/// As they are; where not all are shown, the worst first if the table says which these are.
std::vector<std::size_t> sequence_of_rows(const Table& table) {
  std::vector<std::size_t> rows(table.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (!table.worst_by || table.rows.size() <= table.most_terminal_rows) return rows;
  const auto badness = [&](std::size_t r) { return std::abs(table.rows[r][*table.worst_by].number.value_or(0)); };
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return badness(a) > badness(b); });
  return rows;
}

std::string part_of_table(const Table& table, const std::vector<LaidOutColumn>& columns,
                          const std::vector<std::size_t>& chosen) {
  std::string out;
  std::size_t head_lines = 1;
  for (const std::size_t c : chosen) head_lines = std::max(head_lines, columns[c].head.size());
  for (std::size_t l = 0; l < head_lines; ++l) {
    append_line(out, table, columns, chosen, [&](std::size_t c) {
      const std::size_t above = head_lines - columns[c].head.size();  // short heads stand on the rule
      return l < above ? std::string() : columns[c].head[l - above];
    });
  }
  out += std::string(total_width(columns, chosen), '-') + "\n";
  const std::size_t rows = table.rows.size(), most = table.most_terminal_rows;
  const std::size_t first = rows <= most ? rows : table.worst_by ? most : (most + 1) / 2;
  const std::vector<std::size_t> sequence = sequence_of_rows(table);
  for (std::size_t r = 0; r < first; ++r) append_row(out, table, columns, chosen, sequence[r]);
  if (rows <= most) return out;
  out += "... " + std::to_string(rows - most) + " rows are not shown (--csv has all) ...\n";
  for (std::size_t r = rows - (most - first); r < rows; ++r) append_row(out, table, columns, chosen, sequence[r]);
  return out;
}

/// What is left beside the columns that do not wrap is shared by those that do: each has an equal part, and what one
/// does not need is left to the longer ones.
void wrap_columns(const Table& table, std::vector<LaidOutColumn>& columns, const std::vector<std::size_t>& all,
                  std::size_t width) {
  constexpr std::size_t kLeast = 12;
  std::vector<std::size_t> wrapping;
  std::size_t left = width + kGap;
  for (const std::size_t c : all) {
    if (table.columns[c].wraps) wrapping.push_back(c);
    const std::size_t taken = (table.columns[c].wraps ? 0 : columns[c].width) + kGap;
    left -= std::min(left, taken);
  }
  std::sort(wrapping.begin(), wrapping.end(),
            [&](std::size_t a, std::size_t b) { return columns[a].width < columns[b].width; });
  for (std::size_t i = 0; i < wrapping.size(); ++i) {
    const std::size_t part = std::max(kLeast, left / (wrapping.size() - i));
    if (columns[wrapping[i]].width > part) columns[wrapping[i]] = lay_out(table, wrapping[i], true, part);
    left -= std::min(left, columns[wrapping[i]].width);
  }
}

/// As many columns as fit beside the key columns, again and again; one at least.
std::vector<std::vector<std::size_t>> parts_of(const Table& table, const std::vector<LaidOutColumn>& columns,
                                               std::size_t width) {
  std::vector<std::size_t> keys;
  for (std::size_t c = 0; c < std::min(table.key_columns, columns.size()); ++c) keys.push_back(c);
  std::vector<std::vector<std::size_t>> parts = {keys};
  for (std::size_t c = keys.size(); c < columns.size(); ++c) {
    std::vector<std::size_t> with = parts.back();
    with.push_back(c);
    if (total_width(columns, with) <= width || parts.back().size() == keys.size()) {
      parts.back() = with;
    } else {
      parts.push_back(keys);
      parts.back().push_back(c);
    }
  }
  return parts;
}

/// What is apart from what by an empty line: paragraphs and answers follow one another without.
bool follows_closely(const Block& before, const Block& block) {
  return before.index() == block.index() &&
         (std::holds_alternative<Paragraph>(block) || std::holds_alternative<QuestionAnswer>(block));
}

bool is_figure(const Block& block) {
  return std::holds_alternative<TimelineFigure>(block) || std::holds_alternative<ChartFigure>(block) ||
         std::holds_alternative<MemoryFigures>(block);
}

std::string block_text(const Block& block, std::size_t width) {
  if (const auto* heading = std::get_if<Heading>(&block))
    return wrap(heading->text, width, 2) +
           (heading->level <= 2
                ? std::string(std::min(width, heading->text.size()), heading->level == 1 ? '=' : '-') + "\n"
                : "");
  if (const auto* paragraph = std::get_if<Paragraph>(&block)) return wrap(paragraph->text, width, paragraph->indent);
  if (const auto* lines = std::get_if<Preformatted>(&block)) return lines->text;
  if (const auto* table = std::get_if<Table>(&block))
    return (table->title.empty() ? "" : wrap(table->title, width, 2)) + to_terminal(*table, width);
  if (const auto* answer = std::get_if<QuestionAnswer>(&block))
    return wrap(answer->id + ": " + answer->question + " " + answer->text, width, 2);
  return "";
}

std::string legend(const Document& document, std::size_t width) {
  std::string text;
  std::set<std::string> said;
  for (const Block& block : document.blocks) {
    const auto* table = std::get_if<Table>(&block);
    if (!table) continue;
    for (const TableColumn& column : table->columns) {
      const std::string line = column.title + ": " + column.meaning;
      if (!column.meaning.empty() && said.insert(line).second) text += wrap(line, width, 2);
    }
  }
  return text;
}

std::string warnings_text(const Document& document, const TerminalStyle& style) {
  std::string text;
  std::size_t count = 0;
  for (const Block& block : document.blocks) {
    const auto* warning = std::get_if<Warning>(&block);
    if (!warning || (warning->minor && !style.all_warnings)) continue;
    if (++count > kWarningsShown && !style.all_warnings) continue;
    text += wrap("warning" + (warning->where.empty() ? "" : " (" + warning->where + ")") + ": " + warning->text,
                 style.width, 2);
  }
  if (count > kWarningsShown && !style.all_warnings)
    text += wrap("and " + std::to_string(count - kWarningsShown) + " more " +
                     (count - kWarningsShown == 1 ? "warning" : "warnings") + " (--warnings shows all)",
                 style.width, 2);
  return text;
}

}  // namespace

std::string to_terminal(const Table& table, std::size_t width) {
  std::vector<LaidOutColumn> columns;
  std::vector<std::size_t> all;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    columns.push_back(lay_out(table, c, false));
    all.push_back(c);
  }
  if (total_width(columns, all) > width) {
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c] = lay_out(table, c, true);
    wrap_columns(table, columns, all, width);
  }
  std::string out;
  for (const auto& part : parts_of(table, columns, width))
    out += (out.empty() ? "" : "\n") + part_of_table(table, columns, part);
  return out;
}

std::string to_terminal(const Document& document, const TerminalStyle& style) {
  std::string out;
  const Block* before = nullptr;
  const auto append = [&](const std::string& text, bool closely) {
    if (text.empty()) return;
    out += (out.empty() || closely ? "" : "\n") + text;
  };
  for (const Block& block : document.blocks) {
    if (is_figure(block) || std::holds_alternative<Warning>(block)) continue;
    append(block_text(block, style.width), before && follows_closely(*before, block));
    before = &block;
  }
  append(legend(document, style.width), false);
  append(warnings_text(document, style), false);
  return out;
}

}  // namespace pdl
