// A row of a sweep that has been predicted, as a line of JSON: what the ranks of a shared sweep send to rank 0, and
// what a file for --resume keeps.
//
//   {"row": 7, "source": "profile h200x4: ...", "settings": {"gpus": "4", ...}, "step_time_ms": 93.021, ...}
//   {"row": 8, "settings": {...}, "refused": "out of memory: ...", "exit_code": 3}
//
// Numbers are read back as the same bits. Units: in the keys. Not here: what is worked out of all rows together.
#pragma once

#include <cstddef>
#include <string>

#include "sim/study/sweep.hpp"

namespace pdl {

struct SweepRecord {
  std::size_t row = 0;
  std::string source;  // of its costs, in a line; empty if it cannot run
  RowSettings settings;
  std::optional<SweepResult> result;
  std::string refusal;
  int exit_code = 0;
};

/// Without '\n'.
std::string to_line(const SweepRecord& record);

/// Throws InputError with the place: no record, or none of a sweep with so many rows.
SweepRecord parse_record(const std::string& line, const std::string& place, std::size_t rows);

}  // namespace pdl
