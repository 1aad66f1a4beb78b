#include "sim/spec/schedule_csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"
#include "sim/spec/schedule_csv_check.hpp"

namespace pdl {
namespace {

constexpr std::uintmax_t kLargestCsvBytes = std::uintmax_t{1} << 30;
constexpr std::size_t kMostCsvCells = 20'000'000;
constexpr std::int32_t kLargestIndex = 1'000'000;  // of stages and micro-batches

constexpr std::string_view kWholeBackwardOf2024 = "BW";
constexpr std::string_view kPair = "OVERLAP_F_B";
/// A stage and no micro-batch: they have no meaning for stages that are whole on their GPU.
constexpr std::array<std::string_view, 3> kIdleTypes = {"REDUCE_GRAD", "UNSHARD", "RESHARD"};

constexpr const char* kForm =
    "<stage><type><micro-batch>, such as 1F0, types F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B; "
    "(0F7;7B3)OVERLAP_F_B; or <stage> and REDUCE_GRAD, UNSHARD or RESHARD";

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? without_spaces(text.substr(1, text.size() - 2)) : text;
}

/// The leading digits of `text`, taken off it.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if(text.begin(), text.end(), [](char c) { return c < '0' || c > '9'; });
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

struct WrittenAction {
  std::int32_t stage = 0;
  std::string_view type;
  std::int32_t microbatch = 0;
  bool has_microbatch = false;
};

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& place) {
    order_.place = place;
    split_cells(text);
    for (std::size_t rank = 0; rank < order_.cells.size(); ++rank)
      for (std::size_t i = 0; i < order_.cells[rank].size(); ++i)
        read_cell(static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i));
    if (order_.operations.empty())
      throw InputError(place, "no action in " + std::to_string(order_.cells.size()) + " rows",
                       std::string("actions: ") + kForm);
    read_letters_of_2024();
    if (!order_.has_transfers) check_every_rank_works();
    find_shape();
    check_placement();
  }

  ScheduleFile file() {
    ScheduleFile file;
    file.has_transfers = order_.has_transfers;
    const std::string missing = check_order(order_);
    file.whole_step = missing.empty();
    if (order_.letters_of_2024)
      file.warnings.push_back(order_.place +
                              ": W occurs and I does not, so B is read as the input gradient and BW as the whole "
                              "backward, as in files from 2024");
    if (!idle_.empty()) file.warnings.push_back(idle_warning());
    if (!missing.empty())
      file.warnings.push_back(order_.place + ": a part of a step, read because it has SEND and RECV: " + missing);
    file.order = {order_.placement, order_.shape, {}};
    file.order.workers.resize(order_.cells.size());
    for (const CellOperation& at : order_.operations)
      file.order.workers[static_cast<std::size_t>(at.rank)].push_back(at.operation);
    file.cells = std::move(order_.cells);
    return file;
  }

 private:
  struct IdleCell {
    std::int32_t stage, rank, position;
  };

  /// Rows end with LF, CRLF or CR. Empty rows after the last one that is not are dropped.
  void split_cells(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
      throw InputError(order_.place, "a NUL byte at byte " + std::to_string(nul), "a text file");
    std::size_t cells = 0;
    while (!text.empty()) {
      const auto end_of_row = std::find_if(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n'; });
      const auto end = static_cast<std::size_t>(end_of_row - text.begin());
      split_row(text.substr(0, end));
      cells += order_.cells.back().size() + 1;
      if (cells > kMostCsvCells)
        throw InputError(order_.place, "more than " + std::to_string(kMostCsvCells) + " cells and rows", "fewer");
      text.remove_prefix(text.substr(end).starts_with("\r\n") ? end + 2 : std::min(end + 1, text.size()));
    }
    while (!order_.cells.empty() && order_.cells.back().empty()) order_.cells.pop_back();
  }

  void split_row(std::string_view row) {
    auto& cells = order_.cells.emplace_back();
    if (without_spaces(row).empty()) return;
    while (true) {
      const std::size_t comma = row.find(',');
      cells.emplace_back(without_quotes(without_spaces(row.substr(0, comma))));
      if (comma == std::string_view::npos) return;
      row.remove_prefix(comma + 1);
    }
  }

  void read_cell(std::int32_t rank, std::int32_t position) {
    if (order_.operations.empty() || order_.operations.back().rank != rank) sequence_ = 0;
    const std::string_view cell = order_.cells[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
    if (cell.empty()) return;
    if (cell.front() == '(') return read_pair(cell, rank, position);
    const WrittenAction action = read_action(cell, rank, position);
    if (std::find(kIdleTypes.begin(), kIdleTypes.end(), action.type) != kIdleTypes.end()) {
      if (action.has_microbatch)
        refuse_cell(order_, rank, position, "a micro-batch after " + std::string(action.type), "a stage alone");
      idle_.push_back({action.stage, rank, position});
      return;
    }
    add(action, rank, position);
  }

  /// "(0F7;7B3)OVERLAP_F_B": a forward, then a backward.
  void read_pair(std::string_view cell, std::int32_t rank, std::int32_t position) {
    const std::size_t close = std::min(cell.find(')'), cell.size());
    const std::string_view inside = cell.substr(1, close - 1);
    const std::size_t middle = inside.find(';');
    if (close == cell.size() || without_spaces(cell.substr(close + 1)) != kPair || middle == std::string_view::npos)
      refuse_cell(order_, rank, position, "two actions that cannot be read",
                  "a forward and a backward as in (0F7;7B3)OVERLAP_F_B");
    add(read_action(without_spaces(inside.substr(0, middle)), rank, position), rank, position);
    add(read_action(without_spaces(inside.substr(middle + 1)), rank, position), rank, position);
    Operation& forward = std::prev(order_.operations.end(), 2)->operation;
    const OperationKind second = order_.operations.back().operation.kind;
    if (forward.kind != OperationKind::forward ||
        (second != OperationKind::backward && second != OperationKind::backward_input))
      refuse_cell(order_, rank, position, "another pair", "a forward, then a backward, as in (0F7;7B3)OVERLAP_F_B");
    forward.overlaps_next = true;
  }

  WrittenAction read_action(std::string_view text, std::int32_t rank, std::int32_t position) const {
    WrittenAction action;
    const std::string_view stage = take_digits(text);
    const auto end = std::find_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    action.type = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(action.type.size());
    const std::string_view microbatch = take_digits(text);
    if (stage.empty() || action.type.empty() || !text.empty())
      refuse_cell(order_, rank, position, "no action that can be read", kForm);
    action.stage = read_index("stage", stage, rank, position);
    action.has_microbatch = !microbatch.empty();
    if (action.has_microbatch) action.microbatch = read_index("micro-batch", microbatch, rank, position);
    return action;
  }

  std::int32_t read_index(const char* what, std::string_view digits, std::int32_t rank, std::int32_t position) const {
    std::int32_t value = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc() || end != digits.data() + digits.size() || value > kLargestIndex)
      refuse_cell(order_, rank, position, std::string("a ") + what + " that is too large",
                  "at most " + std::to_string(kLargestIndex));
    return value;
  }

  void add(const WrittenAction& action, std::int32_t rank, std::int32_t position) {
    const bool whole_of_2024 = action.type == kWholeBackwardOf2024;
    const std::string_view type = whole_of_2024 ? "B" : action.type;
    const auto known = std::find_if(kActionTypes.begin(), kActionTypes.end(),
                                    [&](const ActionType& entry) { return entry.name == type; });
    if (known == kActionTypes.end()) refuse_cell(order_, rank, position, "no action that can be read", kForm);
    if (!action.has_microbatch)
      refuse_cell(order_, rank, position, "no micro-batch after " + std::string(action.type), kForm);
    if (whole_of_2024) whole_of_2024_.push_back(order_.operations.size());
    const bool is_message = known->kind >= OperationKind::send_forward;
    order_.has_transfers = order_.has_transfers || is_message;
    order_.operations.push_back({{known->kind, action.stage, action.microbatch}, rank, position, sequence_++});
  }

  void read_letters_of_2024() {
    const auto first = [&](OperationKind kind) {
      return std::find_if(order_.operations.begin(), order_.operations.end(),
                          [&](const CellOperation& at) { return at.operation.kind == kind; });
    };
    const auto input = first(OperationKind::backward_input);
    const bool has_input = input != order_.operations.end();
    if (has_input && !whole_of_2024_.empty())
      refuse_cell(order_, order_.operations[whole_of_2024_.front()], "BW, the whole backward in files from 2024",
                  "B, as I occurs too (rank " + std::to_string(input->rank) + ", position " +
                      std::to_string(input->position) + ")");
    order_.letters_of_2024 =
        !has_input && (!whole_of_2024_.empty() || first(OperationKind::backward_weight) != order_.operations.end());
    if (!order_.letters_of_2024) return;
    for (CellOperation& at : order_.operations)
      if (at.operation.kind == OperationKind::backward) at.operation.kind = OperationKind::backward_input;
    for (const std::size_t index : whole_of_2024_) order_.operations[index].operation.kind = OperationKind::backward;
  }

  void check_every_rank_works() const {
    std::vector<bool> works(order_.cells.size());
    for (const CellOperation& at : order_.operations) works[static_cast<std::size_t>(at.rank)] = true;
    const auto idle = std::find(works.begin(), works.end(), false);
    if (idle != works.end())
      refuse_cell(order_, static_cast<std::int32_t>(idle - works.begin()), 0, "a row without actions",
                  "one or more stages on every rank");
  }

  /// The placement is the one that more of the operations fit.
  void find_shape() {
    const auto ranks = static_cast<std::int32_t>(order_.cells.size());
    std::int64_t fit_loop = 0, fit_v = 0;
    ScheduleShape& shape = order_.shape;
    shape.workers = ranks;
    for (const auto& [operation, rank, position, sequence] : order_.operations) {
      fit_loop += worker_of_stage(Placement::loop, ranks, operation.stage) == rank;
      fit_v += worker_of_stage(Placement::v, ranks, operation.stage) == rank;
      largest_stage_ = std::max(largest_stage_, operation.stage);
      shape.microbatches = std::max(shape.microbatches, operation.microbatch + 1);
    }
    order_.placement = fit_v > fit_loop ? Placement::v : Placement::loop;
    shape.chunks = largest_stage_ / ranks + 1;
  }

  void check_placement() const {
    const std::string ranks = std::to_string(order_.shape.workers);
    const std::string rule = order_.placement == Placement::loop
                                 ? " (stage s on rank s % " + ranks + ", which most cells hold to)"
                                 : " (stages down the " + ranks + " ranks and up again, which most cells hold to)";
    const auto check = [&](std::int32_t stage, std::int32_t rank, std::int32_t position) {
      const std::int32_t right = worker_of_stage(order_.placement, order_.shape.workers, stage);
      if (right != rank)
        refuse_cell(order_, rank, position, "stage " + std::to_string(stage) + " on rank " + std::to_string(rank),
                    "it on rank " + std::to_string(right) + rule);
    };
    for (const CellOperation& at : order_.operations) check(at.operation.stage, at.rank, at.position);
    for (const IdleCell& cell : idle_) {
      check(cell.stage, cell.rank, cell.position);
      if (cell.stage > largest_stage_)
        refuse_cell(order_, cell.rank, cell.position, "stage " + std::to_string(cell.stage),
                    "stages up to " + std::to_string(largest_stage_) + ", the last one with an operation");
    }
    if (order_.shape.stages() == largest_stage_ + 1) return;
    const auto largest = std::find_if(order_.operations.begin(), order_.operations.end(),
                                      [&](const CellOperation& at) { return at.operation.stage == largest_stage_; });
    refuse_cell(order_, *largest, "stage " + std::to_string(largest_stage_) + " as the last one on " + ranks + " ranks",
                "as many stages on every rank: their number a multiple of " + ranks);
  }

  std::string idle_warning() const {
    std::string types;
    for (const std::string_view type : kIdleTypes) {
      const bool occurs = std::any_of(idle_.begin(), idle_.end(), [&](const IdleCell& cell) {
        const auto& row = order_.cells[static_cast<std::size_t>(cell.rank)];
        return row[static_cast<std::size_t>(cell.position)].ends_with(type);
      });
      if (occurs) types += (types.empty() ? "" : ", ") + std::string(type);
    }
    return order_.place + ": " + types + " (" + std::to_string(idle_.size()) +
           (idle_.size() == 1 ? " cell, at rank " : " cells, the first at rank ") + std::to_string(idle_[0].rank) +
           ", position " + std::to_string(idle_[0].position) + ") do nothing here: every stage is whole on its GPU";
  }

  CsvOrder order_;
  std::int32_t sequence_ = 0;
  std::int32_t largest_stage_ = 0;
  std::vector<std::size_t> whole_of_2024_;  // operations written BW
  std::vector<IdleCell> idle_;
};

}  // namespace

ScheduleFile parse_schedule_csv(std::string_view text, const std::string& place) {
  return CsvReader(text, place).file();
}

ScheduleFile load_schedule_csv(const std::string& path) {
  return parse_schedule_csv(read_input_file(path, kLargestCsvBytes, "a schedule as a CSV file"), path);
}

std::string to_csv(const PipelineOrder& order) {
  std::string text;
  for (const auto& operations : order.workers) {
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const auto& [kind, stage, microbatch, overlaps] = operations[i];
      if (i > 0) text += ',';
      if (overlaps && i + 1 < operations.size()) {
        const Operation& next = operations[++i];
        text += '(' + action_name(kind, stage, microbatch) + ';' + action_name(next.kind, next.stage, next.microbatch) +
                ')' + std::string(kPair);
      } else {
        text += action_name(kind, stage, microbatch);
      }
    }
    text += '\n';
  }
  return text;
}

std::string to_csv(const ScheduleFile& file) {
  if (file.cells.empty()) return to_csv(file.order);  // found by a search
  std::string text;
  for (const auto& row : file.cells) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i > 0 ? "," : "") + row[i];
    text += '\n';
  }
  return text;
}

}  // namespace pdl
