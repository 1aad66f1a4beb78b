// Words for rows that differ in their GPUs: groups of one model, speed-ups against the fewest GPUs, efficiency.
//
//   scaling_of(rows, Side::measured)      // of each row against the one with the fewest GPUs
//
// Not here: which rows are compared (series.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/course/answer_words.hpp"
#include "sim/run/speedup.hpp"

namespace pdl {

/// "0.57 times"
std::string times(double value);
/// "47 %"
std::string whole_percent(double fraction);

/// "2 layers of 1024": the model without the batch.
std::string layers_text(const RunSpec& spec);
/// Of all rows.
std::int64_t most_gpus(const ScenarioTable& table);

/// The same settings but the named ones.
bool are_alike(const ScenarioRow& row, const ScenarioRow& other, const std::vector<std::string>& but);
/// Rows with the same settings but the named ones, in the order of the table.
std::vector<Rows> rows_alike(const ScenarioTable& table, const std::vector<std::string>& but);

struct ScalingPoint {
  const ScenarioRow *row, *base;
  Side side;
  Speedup gain;
};

/// Of each row of a group against the one with the fewest GPUs, which is not among them. All of one kind; measured: the
/// rows were.
std::vector<ScalingPoint> scaling_of(Rows rows, Side side);

}  // namespace pdl
