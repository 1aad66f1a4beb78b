#include "sim/report/gantt.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/report/metrics.hpp"
#include "sim/report/number_text.hpp"

namespace pdl {
namespace {

constexpr std::size_t kLeastWidth = 40;
constexpr std::size_t kLeastTickColumns = 10;

/// What fills one column of one GPU.
struct Column {
  std::int64_t computed_ns = 0;
  std::int64_t transferred_ns = 0;
  std::int64_t longest_ns = 0;
  const Span* longest = nullptr;  // the compute span with the largest part of the column
};

/// One character of the chart and the span that it stands for (nullptr: idle or transfer).
struct Cell {
  char character = '.';
  const Span* span = nullptr;
};

class Scale {
 public:
  Scale(std::int64_t step_ns, std::size_t columns) : step_ns_(step_ns), columns_(columns) {}
  std::size_t columns() const { return columns_; }
  /// Start of a column; begin(columns()) is the end of the step.
  std::int64_t begin(std::size_t column) const {
    return static_cast<std::int64_t>(static_cast<__int128>(step_ns_) * static_cast<__int128>(column) /
                                     static_cast<__int128>(columns_));
  }
  std::size_t column_of(std::int64_t ns) const {
    const auto column =
        static_cast<std::size_t>(static_cast<__int128>(ns) * static_cast<__int128>(columns_) / step_ns_);
    return std::min(column, columns_ - 1);
  }

 private:
  std::int64_t step_ns_;
  std::size_t columns_;
};

void add_span(std::vector<Column>& columns, const Scale& scale, const Span& span) {
  for (std::size_t c = scale.column_of(span.start_ns); c < columns.size() && scale.begin(c) < span.end_ns; ++c) {
    const std::int64_t part = std::min(span.end_ns, scale.begin(c + 1)) - std::max(span.start_ns, scale.begin(c));
    if (part <= 0) continue;
    Column& column = columns[c];
    if (span.kind == TaskKind::sleep) continue;
    if (is_communication(span.kind)) {
      column.transferred_ns += part;
      continue;
    }
    column.computed_ns += part;
    if (part > column.longest_ns) {
      column.longest_ns = part;
      column.longest = &span;
    }
  }
}

char fill_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return '>';
    case TaskKind::backward:
    case TaskKind::backward_input:
      return '<';
    case TaskKind::backward_weight:
      return 'w';
    case TaskKind::recompute:
      return 'r';
    case TaskKind::bucket_copy_in:
    case TaskKind::bucket_copy_out:
      return 'c';
    case TaskKind::loss:
      return 'l';
    default:
      return 'o';
  }
}

std::vector<Cell> draw(const RunResult& run, const std::vector<Column>& columns, const Scale& scale, bool with_stage) {
  std::vector<Cell> cells(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    const std::int64_t length = scale.begin(c + 1) - scale.begin(c);
    if (2 * column.computed_ns >= length && column.longest) {
      cells[c] = {fill_of(column.longest->kind), column.longest};
    } else if (2 * (column.computed_ns + column.transferred_ns) >= length && column.transferred_ns > 0) {
      cells[c].character = '~';
    }
  }
  for (std::size_t c = 0; c < cells.size();) {
    std::size_t end = c + 1;
    while (end < cells.size() && cells[end].span == cells[c].span) ++end;
    if (const Span* span = cells[c].span; span && is_compute(span->kind)) {
      const std::string name = span_name(run, *span, with_stage);
      for (std::size_t i = 0; i < name.size() && name.size() <= end - c; ++i) cells[c + i].character = name[i];
    }
    c = end;
  }
  return cells;
}

/// Black on a bright ground, two shades by turns so that neighbouring micro-batches can be told apart.
std::string color_of(const Cell& cell) {
  if (!cell.span) return cell.character == '~' ? "\x1b[35m" : "\x1b[2m";
  const bool odd = cell.span->microbatch % 2 != 0;
  switch (cell.span->kind) {
    case TaskKind::forward:
      return odd ? "\x1b[30;106m" : "\x1b[30;46m";
    case TaskKind::backward:
    case TaskKind::backward_input:
      return odd ? "\x1b[30;103m" : "\x1b[30;43m";
    case TaskKind::backward_weight:
      return odd ? "\x1b[30;102m" : "\x1b[30;42m";
    default:
      return "\x1b[30;45m";
  }
}

std::string text_of(const std::vector<Cell>& cells, bool color) {
  std::string text, current;
  for (const Cell& cell : cells) {
    if (color && color_of(cell) != current) {
      current = color_of(cell);
      text += "\x1b[0m" + current;
    }
    text += cell.character;
  }
  return color ? text + "\x1b[0m" : text;
}

/// 1, 2 or 5 times a power of ten, such that ticks are at least kLeastTickColumns apart.
double tick_ms(double step_ms, std::size_t columns) {
  const double least = step_ms * static_cast<double>(kLeastTickColumns) / static_cast<double>(columns);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string axis(std::int64_t step_ns, std::size_t columns, std::size_t indent) {
  const double step_ms = static_cast<double>(step_ns) / 1e6;
  const double tick = tick_ms(step_ms, columns);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(tick) + 1e-9)));
  std::string line(indent, ' ');
  for (int i = 0; i * tick <= step_ms; ++i) {
    const auto column = indent + static_cast<std::size_t>(i * tick / step_ms * static_cast<double>(columns));
    const std::string label = fixed(i * tick, digits);
    if (i > 0 && (column < line.size() + 1 || column + label.size() + 2 > indent + columns)) continue;
    line.resize(column, ' ');
    line += label;
  }
  return line + " ms\n";
}

std::string legend(const RunResult& run) {
  std::set<TaskKind> seen;
  for (const Span& span : run.timeline.spans) {
    if (span.end_ns > span.start_ns) seen.insert(span.kind);
  }
  const auto has = [&](TaskKind kind) { return seen.contains(kind); };
  std::string text = "F0> forward of micro-batch 0";
  if (has(TaskKind::backward)) text += "   B0< backward";
  if (has(TaskKind::backward_input)) text += "   I0< backward, input gradient";
  if (has(TaskKind::backward_weight)) text += "   W0w weight gradient";
  if (has(TaskKind::recompute)) text += "   R0r forward again";
  if (has(TaskKind::optimizer)) text += "   o optimizer";
  if (has(TaskKind::loss)) text += "   l loss";
  if (has(TaskKind::bucket_copy_in) || has(TaskKind::bucket_copy_out)) text += "   c gradients copied";
  if (std::any_of(seen.begin(), seen.end(), is_transfer)) text += "   ~ transfer only";
  if (std::any_of(seen.begin(), seen.end(), is_collective)) text += "   ~ collective only";
  return text + "   . idle\n";
}

}  // namespace

std::vector<std::size_t> shown_rows(std::size_t count, std::size_t most) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < count; ++i) {
    if (count <= most || i < (most + 1) / 2 || i >= count - most / 2) rows.push_back(i);
  }
  return rows;
}

std::string gantt(const RunResult& run, const GanttStyle& style) {
  const auto gpus = static_cast<std::size_t>(run.spec.gpus);
  const std::vector<std::size_t> rows = shown_rows(gpus, style.most_rows);
  const std::size_t number_width = std::to_string(gpus - 1).size();
  const std::size_t indent = 4 + number_width + 2;  // "GPU 0 |"
  const Scale scale(run.timeline.step_ns, std::max(style.width, kLeastWidth) - indent - 1);

  std::vector<std::size_t> row_of(gpus, rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) row_of[rows[r]] = r;
  std::vector<std::vector<Column>> columns(rows.size(), std::vector<Column>(scale.columns()));
  const std::vector<Span> spans = without_waiting(run.timeline);
  for (const Span& span : spans) {
    const std::size_t row = row_of.at(static_cast<std::size_t>(span.worker));
    if (row < rows.size()) add_span(columns[row], scale, span);
  }

  const std::vector<bool> several = holds_several_stages(run);
  std::string out = axis(run.timeline.step_ns, scale.columns(), indent);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r > 0 && rows[r] != rows[r - 1] + 1) {
      out += std::string(indent, ' ') + "... " + std::to_string(gpus - rows.size()) + " GPUs are not drawn ...\n";
    }
    const std::string number = std::to_string(rows[r]);
    out += "GPU " + std::string(number_width - number.size(), ' ') + number + " |" +
           text_of(draw(run, columns[r], scale, several[rows[r]]), style.color) + "|\n";
  }
  return out + legend(run);
}

}  // namespace pdl
