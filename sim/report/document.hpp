// What a command has to say, before anybody has decided how it is shown: a list of blocks. Views build it once; the
// terminal, Markdown, CSV, JSON and HTML are renderers of the same blocks, so that all have the same words.
//
//   Document d{.title = "profiles", .blocks = {
//       Paragraph{"costs: profile h100x4"},
//       Table{.name = "gpus", .columns = {{"gpu", "GPU"}, {"busy_ms", "busy", "ms", "computing"}},
//             .rows = {{"0", {"3.000", 3.0}}}},
//       QuestionAnswer{"HW3.4 Q1", "Does it get faster?", "No: ..."},
//       Warning{"optimizer beyond measured sizes: 1.7 % of the step rests on it", "row 1"}}};
//
//   GPU  busy (ms)        to_terminal(d, {.width = 80})   lines of at most 80 columns
//   --------------        to_markdown(d)                  GitHub's Markdown
//     0      3.000        to_csv(d)                       each table, 3 and not 3.000
//   busy: computing       to_json(d)                      {"title": ..., "tables": [...], "answers": [...], ...}
//                         to_html(d)                      a page (sim/report/html.hpp)
//
// Figures are drawn by HTML alone. Not here: what is said; each view is a file of its own.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

/// A word, or a number as people read it with its exact value, by which tables sort and which CSV and JSON have. "-":
/// there is nothing; CSV has an empty cell there, JSON null.
struct TableCell {
  TableCell(std::string shown) : text(std::move(shown)) {}
  TableCell(const char* shown) : text(shown) {}
  TableCell(std::string shown, double value) : text(std::move(shown)), number(value) {}
  std::string text;
  std::optional<double> number;
};

enum class Align { left, right };

/// A head is "title (unit)", on a terminal in one line or two.
struct TableColumn {
  std::string key{};      // in CSV and JSON, unit in the name: "step_time_ms"
  std::string title{};    // "step time"
  std::string unit{};     // "ms"; empty: none
  std::string meaning{};  // one sentence for the legend, without the title; empty: the title says it
  Align align = Align::right;
  bool wraps = false;  // a column of sentences: on a terminal its cells are broken into lines where that makes it fit
};

struct Table {
  std::string name{};                  // "sweep": in JSON, and in the names of CSV files; unique in its document
  std::string title{};                 // above it; may be empty
  std::vector<TableColumn> columns{};  // at least one
  std::vector<std::vector<TableCell>> rows{};  // each as long as `columns`
  /// Where a terminal is too narrow, the table is continued below itself; its first columns are repeated there.
  std::size_t key_columns = 1;
  /// Of more rows a terminal shows the first and the last, and says how many it leaves out; other renderers have all.
  std::size_t most_terminal_rows = std::numeric_limits<std::size_t>::max();
  /// If given, it shows those whose number in this column is furthest from 0 instead, the furthest first.
  std::optional<std::size_t> worst_by{};
};

struct Heading {
  std::string text{};
  int level = 2;  // 1: of the document, 2: of a part of it, 3
};

struct Paragraph {
  std::string text{};
  std::size_t indent = 0;  // of the lines after the first, on a terminal
};

/// Lines as they are: a chart of letters, a list of operations. `terminal_only`: other renderers have a figure for it.
struct Preformatted {
  std::string text{};
  bool terminal_only = false;
};

/// Of a question of the course.
struct QuestionAnswer {
  std::string id{};        // "HW1.2 Q1"
  std::string question{};  // "Is it linear?"
  std::string text{};      // one or two sentences, with numbers that are said to be measured or predicted
};

/// What may make a number of this document wrong, and how much of the result rests on it.
struct Warning {
  std::string text{};
  std::string where{};  // "row 1, row 3"; empty: all of it
  bool minor = false;   // hardly anything rests on it: a terminal shows it with all_warnings only
};

/// Spans over time, a row a GPU and stream. Two runs (predicted, measured) are drawn above each other on one axis.
struct TimelineFigure {
  std::string title{};
  std::vector<std::shared_ptr<const RunResult>> runs{};  // one or two
};

struct ChartSeries {
  std::string name{};
  std::vector<double> x{}, y{};       // of equal length; where `labels` are the axis, x is their index
  std::vector<std::string> labels{};  // of points, for the tooltip; empty or as long as y
  bool reference = false;             // a thin dashed line, whatever the chart: the ideal speed-up, y = x
};

/// Where series are stacked, all have the same x. In `stacked_area` y holds from its x to the next one.
enum class ChartKind { line, bar, stacked_bar, scatter, stacked_area };

struct ChartFigure {
  std::string title{};
  ChartKind kind = ChartKind::line;
  std::string x_title, y_title;         // with units: "step time (ms)"
  std::vector<std::string> x_labels{};  // a category axis; empty: numbers
  std::vector<ChartSeries> series{};
  bool x_logarithmic = false, y_logarithmic = false;
};

/// Charts of the memory of a run's GPUs over time (memory_figure.hpp), made where they are shown: what is allocated
/// when is worked out from the run's plan.
struct MemoryFigures {
  std::shared_ptr<const RunResult> run{};
};

using Block = std::variant<Heading, Paragraph, Preformatted, Table, QuestionAnswer, Warning, TimelineFigure,
                           ChartFigure, MemoryFigures>;

struct Document {
  std::string title{};
  std::vector<Block> blocks{};

  void add(Block block) { blocks.push_back(std::move(block)); }
  void add(const Document& part) { blocks.insert(blocks.end(), part.blocks.begin(), part.blocks.end()); }
};

struct TerminalStyle {
  std::size_t width = 100;    // columns; no line is longer, but for words and single columns that are
  bool all_warnings = false;  // else the first three that are not minor, and how many there are
};

/// Lines without trailing spaces, each ended by '\n'. Blocks of different kinds are apart by an empty line; the legend
/// of all tables, each meaning once, is below the last one; then the warnings.
std::string to_terminal(const Document& document, const TerminalStyle& style);

/// A table alone, of at most `width` columns where it can be.
std::string to_terminal(const Table& table, std::size_t width);

/// GitHub's; '|' in cells is escaped, figures are left out. At its end the legend, each meaning once, and all warnings,
/// each text once, with all places that have it.
std::string to_markdown(const Document& document);

/// RFC 4180 with '\n': a head of keys, a line a row; numbers in full. An empty line between two tables.
std::string to_csv(const Document& document);

/// Keys: title, tables [{name, title, columns [{key, title, unit, meaning}], rows [{key: number, word or null}]}],
/// answers [{id, question, answer}], notes (paragraphs), warnings [{where, text}]; those that are empty too.
nlohmann::ordered_json to_json(const Document& document);

}  // namespace pdl
