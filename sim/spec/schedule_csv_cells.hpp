// What was read from the cells of a schedule's CSV file, and how messages name a cell and an action of it.
//
//   refuse_cell(order, 1, 3, "stage 1", "stage 0")   mine.csv: rank 1, position 3, cell 1B3: found stage 1, ...
//   written_action(order, backward, 0, 2)            "0B2", or in the letters of 2024 "0BW2"
//
// Internal to sim/spec: schedule_csv.cpp reads them, schedule_csv_check.cpp checks them.
#pragma once

#include <string>
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

/// The text of a cell in a message: short, on one line.
std::string cell_text(const std::string& cell);

}  // namespace pdl
