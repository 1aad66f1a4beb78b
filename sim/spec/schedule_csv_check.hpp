// What the order of a CSV file must hold, apart from how it is written: every action once and in order, on the right
// rank, every message with both ends. Only schedule_csv.cpp uses it.
//
//   CsvOrder order = ...;                       the cells and their operations
//   std::string part = check_order(order);      "" if it is a whole step, else what is missing
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/schedule.hpp"

namespace pdl {

/// An operation and the cell that it stands in.
struct CellOperation {
  Operation operation;
  std::int32_t rank = 0;
  std::int32_t position = 0;  // of the cell in its row, from 0
  std::int32_t sequence = 0;  // of the operation among those of its rank: a cell may hold two
};

struct CsvOrder {
  std::string place;                            // the file's name, for messages
  std::vector<std::vector<std::string>> cells;  // by rank
  std::vector<CellOperation> operations;        // row after row; not empty
  Placement placement = Placement::loop;
  ScheduleShape shape;
  bool letters_of_2024 = false;  // the file writes I as B and B as BW; so do messages about it
  bool has_transfers = false;
};

/// Throws InputError "FILE: rank 1, position 3, cell 1B3: found ..., expected ...".
[[noreturn]] void refuse_cell(const CsvOrder& order, std::int32_t rank, std::int32_t position, const std::string& found,
                              const std::string& expected);
[[noreturn]] void refuse_cell(const CsvOrder& order, const CellOperation& at, const std::string& found,
                              const std::string& expected);

/// The action as this file would write it.
std::string written_action(const CsvOrder& order, OperationKind kind, std::int32_t stage, std::int32_t microbatch);

/// Every stage must be on the rank that order.placement says. Throws InputError as schedule_csv.hpp lists. Returns ""
/// for a whole step, else what is missing, which only an order with transfers may be: "4 forwards, 5 backwards and 2
/// SEND or RECV actions are missing, among them 0F0, 0B0, 0F1".
std::string check_order(const CsvOrder& order);

}  // namespace pdl
