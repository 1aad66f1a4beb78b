// What the order of a CSV file must hold, apart from how it is written: every action once and in order, on the right
// rank, every message with both ends. Only schedule_csv.cpp uses it.
//
//   CsvOrder order = ...;                       the cells and their operations
//   std::string part = check_order(order);      "" if it is a whole step, else what is missing
#pragma once

#include <string>

#include "sim/spec/schedule_csv_cells.hpp"

namespace pdl {

/// Every stage must be on the rank that order.placement says. Throws InputError as schedule_csv.hpp lists. Returns ""
/// for a whole step, else what is missing, which only an order with transfers may be: "4 forwards, 5 backwards and 2
/// SEND or RECV actions are missing, among them 0F0, 0B0, 0F1".
std::string check_order(const CsvOrder& order);

}  // namespace pdl
