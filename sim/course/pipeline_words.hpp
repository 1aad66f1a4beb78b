// Words for rows that differ in their schedule and their micro-batches: orders, bubbles and what they consist of,
// overlap of forward and backward, losses.
//
//   const auto series = pipelines(tables, {"naive", "gpipe"});      // those to compare, the one to quote first
//   const ScenarioRow* row = row_with(*series, "gpipe", 4);
//   bubble_text(*series, *row)
//   -> "45.4 % of the GPUs' time (idle 41.1 %, optimizer and loss 3.6 %, transfers 0.7 %), where the closed form
//      (P - 1) / (M + P - 1) is 42.9 %"
//
// Shares are of the time of all GPUs of a pipeline. Not here: what the answers are about (answers_*.cpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/course/series.hpp"

namespace pdl {

/// Series over the named settings that have all rows of their table: measured where one machine measured all of them,
/// else all of them as predicted.
std::vector<Series> whole_series(const Tables& tables, const std::vector<std::string>& varied);

/// Series over schedules and micro-batches, pipelines of several GPUs only, that have all the named schedules. The one
/// to quote is first: measured before predicted, then the one with most GPUs, then the first of the table.
std::vector<Series> pipelines(const Tables& tables, const std::vector<std::string>& schedules);
/// The first of them; nothing if there is none.
std::optional<Series> pipeline_to_quote(const Tables& tables, const std::vector<std::string>& schedules);

/// The sheets' number of micro-batches, else the largest that all the named schedules have.
inline constexpr std::int64_t kSheetMicrobatches = 4;
std::int64_t microbatches_to_quote(const Series& series, const std::vector<std::string>& schedules);
/// nullptr if there is none.
const ScenarioRow* row_with(const Series& series, const std::string& schedule, std::int64_t microbatches);
/// Of one schedule, fewest micro-batches first.
Rows rows_of_schedule(const Series& series, const std::string& schedule);

/// "8 layers of 8192, batch 2048 on 2 GPUs, measured on h200x2"
std::string pipeline_place(const Series& series);
/// "Option B (GPipe)": the sheets' name of a schedule, where they have one.
std::string option_name(const std::string& schedule);
/// "2, 4 and 8 micro-batches: 98.86, 85.31 and 87.17 ms"
std::string times_text(const Series& series, const Rows& rows);
/// Less than that between two steps, waits or shares of an answer is no difference to explain.
inline constexpr double kNoDifference = 0.02;
bool is_same(double value, double other);
/// "no difference here", and that the steps are host-bound where the predictions of the rows say so.
std::string no_difference_text(const Rows& rows);
/// "is 2.16 times as fast as", "takes 1.63 times as long as", "takes as long as" (within kNoDifference): between the
/// one and the other.
std::string against(double time_ms, double than_ms);
/// "the recorded step of 116.39 ms": the one of the timeline, which the median step is not; predicted: "84.00 ms".
std::string timeline_step_text(const EvaluatedRun& run);

/// "F0 F1 B0 F2 ...", all of it or the first operations: of GPU 0.
std::string order_text(const EvaluatedRun& run, std::size_t most = 1000);
/// (P - 1) / (M + P - 1): GPipe and 1F1B with equal stages and no other cost.
double ideal_bubble(const ScenarioRow& row);
std::string bubble_text(const Series& series, const ScenarioRow& row);
/// What a bubble is beyond its closed form: "the rest is the optimizer, transfers and unequal stages", or the host.
std::string rest_of_bubble(const Rows& rows);

/// The first moment at which a backward of one GPU and a forward of another run at once for over 0.1 % of the step.
struct FirstOverlap {
  std::string backward, forward;  // "B0 on GPU 3"
  std::int64_t at_ns = 0;         // since the start of the step
};
std::optional<FirstOverlap> first_overlap(const EvaluatedRun& run);
/// Until the first backward of the step begins.
std::int64_t first_backward_ns(const EvaluatedRun& run);

/// "The losses are equal in every step (8 layers of ...): in the first step 0.9998776, in the last 0.9991." Of rows
/// with as many micro-batches.
std::string losses_text(const Series& series, const Rows& rows);

}  // namespace pdl
