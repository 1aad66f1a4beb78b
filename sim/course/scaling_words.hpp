// Words for rows that differ in their GPUs: groups of one model, speed-ups against the fewest GPUs, efficiency.
//
//   scaling_of(rows, Side::measured)      // of each row against the one with the fewest GPUs
//   speedups_text(points)
//   -> "1.77 times on 2 GPUs (efficiency 89 %) as fast as on 1 GPU (measured against measured)"
//
// All numbers of one text are of one kind, measured or predicted: mixed, their difference would look like a trend.
// Not here: what the sentences are about (answers_*.cpp).
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

/// `points`: one at least, all of one kind.
std::string speedups_text(const std::vector<ScalingPoint>& points);
/// " Measured and predicted disagree ...", where one says that more GPUs help and the other that they do not.
std::string disagreement_text(const Rows& rows);
/// The sharpest fall of the efficiency from one number of GPUs to the next. `points`: all of one kind.
std::string drop_text(const std::vector<ScalingPoint>& points);
/// "0.8 %": p25 to p75 of the measured steps, of their median.
std::string spread_text(const ScenarioRow& row);
/// Said once where numbers of host-bound rows are beside others.
std::string host_bound_note(const Rows& rows);

}  // namespace pdl
