#include "sim/spec/schedule_csv_cells.hpp"

#include "sim/io/error.hpp"

namespace pdl {

/// The text of a cell in a message: short, on one line.
std::string cell_text(const std::string& cell) {
  std::string text;
  for (const char c : cell.substr(0, 60)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return cell.size() > 60 ? text + "..." : text;
}

void refuse_cell(const CsvOrder& order, std::int32_t rank, std::int32_t position, const std::string& found,
                 const std::string& expected) {
  const auto& row = order.cells[static_cast<std::size_t>(rank)];
  const auto index = static_cast<std::size_t>(position);
  const std::string cell = index >= row.size()  ? " (the end of the row)"
                           : row[index].empty() ? ", a blank cell"
                                                : ", cell " + cell_text(row[index]);
  throw InputError(order.place + ": rank " + std::to_string(rank) + ", position " + std::to_string(position) + cell,
                   found, expected);
}

void refuse_cell(const CsvOrder& order, const CellOperation& at, const std::string& found,
                 const std::string& expected) {
  refuse_cell(order, at.rank, at.position, found, expected);
}

std::string written_action(const CsvOrder& order, OperationKind kind, std::int32_t stage, std::int32_t microbatch) {
  if (!order.letters_of_2024) return action_name(kind, stage, microbatch);
  if (kind == OperationKind::backward) return std::to_string(stage) + "BW" + std::to_string(microbatch);
  if (kind == OperationKind::backward_input) return action_name(OperationKind::backward, stage, microbatch);
  return action_name(kind, stage, microbatch);
}

}  // namespace pdl
