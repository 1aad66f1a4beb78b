#include "sim/report/gantt.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sim/io/number_text.hpp"
#include "sim/run/metrics.hpp"

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

/// `start_ns`: when it begins to run.
void add_span(std::vector<Column>& columns, const Scale& scale, const Span& span, std::int64_t start_ns) {
  if (span.kind == TaskKind::sleep) return;
  for (std::size_t c = scale.column_of(start_ns); c < columns.size() && scale.begin(c) < span.end_ns; ++c) {
    const std::int64_t part = std::min(span.end_ns, scale.begin(c + 1)) - std::max(start_ns, scale.begin(c));
    if (part <= 0) continue;
    Column& column = columns[c];
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
    case TaskKind::forward: return '>';
    case TaskKind::backward:
    case TaskKind::backward_input: return '<';
    case TaskKind::backward_weight: return 'w';
    case TaskKind::recompute: return 'r';
    case TaskKind::bucket_copy_in:
    case TaskKind::bucket_copy_out: return 'c';
    case TaskKind::loss: return 'l';
    default: return 'o';
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

/// The part of a GPU's row that is of one stage; blank where the GPU computes for another.
std::vector<Cell> of_stage(std::vector<Cell> cells, std::int32_t stage) {
  for (Cell& cell : cells) {
    if (cell.span && cell.span->stage != stage) cell = {' ', nullptr};
  }
  return cells;
}

/// Black on a bright ground, two shades by turns so that neighbouring micro-batches can be told apart.
std::string color_of(const Cell& cell) {
  if (!cell.span) return cell.character == '~' ? "\x1b[35m" : "\x1b[2m";
  const bool odd = cell.span->microbatch % 2 != 0;
  switch (cell.span->kind) {
    case TaskKind::forward: return odd ? "\x1b[30;106m" : "\x1b[30;46m";
    case TaskKind::backward:
    case TaskKind::backward_input: return odd ? "\x1b[30;103m" : "\x1b[30;43m";
    case TaskKind::backward_weight: return odd ? "\x1b[30;102m" : "\x1b[30;42m";
    default: return "\x1b[30;45m";
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

/// How the stages of a GPU that holds several are told apart.
enum class Stages { one, in_rows, in_names };

/// Items with three spaces between them, in lines of at most `width` where an item is no longer than that.
std::string joined(const std::vector<std::string>& items, std::size_t width) {
  std::string text, line;
  for (const std::string& item : items) {
    if (!line.empty() && line.size() + 3 + item.size() > width) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "   ") + item;
  }
  return text + line + "\n";
}

/// `named`: the chart is wide enough for the names of operations, at least somewhere.
std::string legend(TaskKinds seen, Stages stages, bool named, std::size_t width) {
  const auto has = [&](TaskKind kind) { return seen.contains(kind); };
  const std::string stage = stages == Stages::in_names ? "0" : "";
  const auto drawn_as = [&](const char* name, const char* filling) {
    return named ? stage + name + filling : std::string(filling);
  };
  std::vector<std::string> items = {drawn_as("F0", ">") + " forward" + (named ? " of micro-batch 0" : "") +
                                    (named && !stage.empty() ? " on stage 0" : "")};
  if (has(TaskKind::backward)) items.push_back(drawn_as("B0", "<") + " backward");
  if (has(TaskKind::backward_input)) items.push_back(drawn_as("I0", "<") + " backward, input gradient");
  if (has(TaskKind::backward_weight)) items.push_back(drawn_as("W0", "w") + " weight gradient");
  if (has(TaskKind::recompute)) items.push_back(drawn_as("R0", "r") + " forward run again");
  if (has(TaskKind::optimizer)) items.push_back("o optimizer");
  if (has(TaskKind::loss)) items.push_back("l loss");
  if (has(TaskKind::bucket_copy_in) || has(TaskKind::bucket_copy_out)) items.push_back("c gradients copied");
  if (seen.contains_any_of(kTransfers)) items.push_back("~ transfer only");
  if (seen.contains_any_of(kCollectives)) items.push_back("~ collective only");
  items.push_back(". idle");
  if (stages == Stages::in_rows) items.push_back("s0 stage 0, blank while its GPU computes for another stage");
  return joined(items, width);
}

/// Stages by GPU, as spans number them.
std::vector<std::vector<std::int32_t>> stages_of_gpus(const RunResult& run) {
  std::vector<std::vector<std::int32_t>> stages(static_cast<std::size_t>(run.spec.gpus));
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    stages.at(static_cast<std::size_t>(only_worker(run.stages[s]))).push_back(static_cast<std::int32_t>(s));
  }
  return stages;
}

/// A row a stage where GPUs hold several and there is room for it: names without the stage fit into shorter operations.
Stages how_to_tell_stages(const std::vector<std::vector<std::int32_t>>& stages, std::size_t most_rows) {
  std::size_t rows = 0, most = 0;
  for (const auto& of_gpu : stages) {
    rows += std::max<std::size_t>(of_gpu.size(), 1);  // a GPU without stages has a row too
    most = std::max(most, of_gpu.size());
  }
  if (most <= 1) return Stages::one;
  return rows <= most_rows ? Stages::in_rows : Stages::in_names;
}

/// The part of the width that a stage's label takes: " s7"; 0 where stages have no rows.
std::size_t width_of_label(Stages stages, std::int32_t stages_of_replica) {
  return stages == Stages::in_rows ? 2 + std::to_string(stages_of_replica - 1).size() : 0;
}

/// The rows of one GPU: one for each of `stages`; one without a label where there are none. `head`: "GPU 0".
std::string rows_of_gpu(const std::string& head, const std::vector<Cell>& cells,
                        const std::vector<std::int32_t>& stages, std::int32_t stages_of_replica,
                        std::size_t label_width, bool color) {
  if (stages.empty()) return head + std::string(label_width, ' ') + " |" + text_of(cells, color) + "|\n";
  std::string rows;
  for (const std::int32_t stage : stages) {
    std::string label = " s" + std::to_string(stage % stages_of_replica);
    label.resize(label_width, ' ');
    rows += (rows.empty() ? head : std::string(head.size(), ' ')) + label + " |" +
            text_of(of_stage(cells, stage), color) + "|\n";
  }
  return rows;
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
  return gantt(run, SpansOfGpus(run.timeline, static_cast<std::size_t>(run.spec.gpus)), style);
}

std::string gantt(const RunResult& run, const SpansOfGpus& spans, const GanttStyle& style) {
  const auto gpus = static_cast<std::size_t>(run.spec.gpus);
  const std::vector<std::size_t> rows = shown_rows(gpus, style.most_rows);
  const std::size_t number_width = std::to_string(gpus - 1).size();
  const std::vector<std::vector<std::int32_t>> stages_of = stages_of_gpus(run);
  const Stages stages = how_to_tell_stages(stages_of, style.most_rows);
  const std::size_t replicas = std::max<std::size_t>(run.replica_rows.size(), 1);
  const auto of_replica = static_cast<std::int32_t>(run.stages.size() / replicas);
  const std::size_t label_width = width_of_label(stages, of_replica);
  const std::size_t indent = 4 + number_width + label_width + 2;  // "GPU 0 s7 |"
  const Scale scale(run.timeline.step_ns, std::max(style.width, kLeastWidth) - indent - 1);

  std::vector<std::vector<Column>> columns(rows.size(), std::vector<Column>(scale.columns()));
  for (std::size_t r = 0; r < rows.size(); ++r)
    spans.for_each(rows[r], [&](const Span& span) { add_span(columns[r], scale, span, spans.start_ns(span)); });

  bool named = false;
  std::string out = axis(run.timeline.step_ns, scale.columns(), indent);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r > 0 && rows[r] != rows[r - 1] + 1) {
      out += std::string(indent, ' ') + "... " + std::to_string(gpus - rows.size()) + " GPUs are not drawn ...\n";
    }
    const std::string number = std::to_string(rows[r]);
    const std::string head = "GPU " + std::string(number_width - number.size(), ' ') + number;
    const std::vector<std::int32_t>& own = stages_of[rows[r]];
    const std::vector<Cell> cells = draw(run, columns[r], scale, stages == Stages::in_names && own.size() > 1);
    named = named || std::any_of(cells.begin(), cells.end(), [](const Cell& cell) {
              return std::isdigit(static_cast<unsigned char>(cell.character));
            });
    out += rows_of_gpu(head, cells, stages == Stages::in_rows ? own : std::vector<std::int32_t>{}, of_replica,
                       label_width, style.color);
  }
  return out + legend(spans.kinds(), stages, named, std::max(style.width, kLeastWidth));
}

}  // namespace pdl
