// The words that answers are made of: times, counts, comparisons.
//
//   time_as_long(54.5, 50.0)            "1.09 times as long as"
//   count_of(1, "GPU"), count_of(4, "GPU")    "1 GPU", "4 GPUs"
//
// Not here: which rows a sentence compares (series.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/study/scenario_table.hpp"

namespace pdl {

using Rows = std::vector<const ScenarioRow*>;

/// Which of the two numbers of a row a sentence uses.
enum class Side { predicted, measured };

/// The host that issues the step bounds it, as its prediction says (predict()): its times are noise of
/// the host, and tasks have waits for the host inside.
bool is_host_bound(const ScenarioRow& row);

/// "; of a recorded step 86.5 % longer than the median step", or nothing.
std::string recording_text(const EvaluatedRun& run);

const EvaluatedRun& of(const ScenarioRow& row, Side side);
double step_ms(const ScenarioRow& row, Side side);
std::string name(Side side);
std::string ms(double value);
std::string ms_of(std::int64_t ns);
/// "1 GPU", "1,024 GPUs".
std::string count_of(std::int64_t count, const std::string& what, const std::string& plural = "s");
std::string gpus_of(const ScenarioRow& row);

/// How many slices there are; a batch that does not divide may give fewer than were asked for.
std::int64_t microbatches_of(const ScenarioRow& row);
std::string microbatches_text(const ScenarioRow& row);

/// Of two step times or speed-ups, of two programs or predicted: those that are so close say that nothing differs.
inline constexpr double kSameWithin = 0.02;
enum class Difference { less, none, more };
Difference difference_to(double value, double than);
/// "1.09 times as long as", "as long as (within 2 %)".
std::string time_as_long(double time_ms, double than_ms);

/// The step that the spans of a run are of: "recorded step" where it was measured (its time is not the median), "step".
std::string step_of_spans(Side side);

/// Less than that between two step times cannot be told apart.
inline constexpr double kTellable = 0.01;

/// Of two losses: "1.000 %", "0.4 millionths".
std::string difference_text(double fraction);

/// "3.0 to 4.2 %", or one of them where they are the same.
std::string least_to_most(double least, double most, const std::string& unit);

/// How much of the step the GPUs are at tasks of computation: "24.9 to 25.0 %".
std::string busy_range(const EvaluatedRun& run);
/// 0: not known.
std::int64_t largest_memory(const EvaluatedRun& run);

/// In the unit of `largest`: amounts that are compared have one. "0.87 GiB" beside "1.09 GiB".
std::string memory_like(std::int64_t bytes, std::int64_t largest);

/// Puts a row into the first group whose first row is `like` it, or into one of its own behind them.
template <typename Like>
void add_to_group(std::vector<Rows>& groups, const ScenarioRow& row, Like like) {
  const auto known =
      std::find_if(groups.begin(), groups.end(), [&](const Rows& group) { return like(*group.front()); });
  if (known == groups.end()) {
    groups.push_back({&row});
  } else {
    known->push_back(&row);
  }
}

/// "at most 2 of 4 GPUs compute at once, 1.50 on average".
std::string at_once_text(const EvaluatedRun& run);
/// "8 layers of 64, batch 256"; "models/a.json (8 layers), batch 256".
std::string model_text(const RunSpec& spec);
/// With accumulation and delay: "8 layers of 64, batch 256, 4 accumulation steps, a delay of 10 ms".
std::string work_text(const RunSpec& spec);

/// "2, 4, 8 and 16".
std::string listed(const std::vector<std::string>& items);

}  // namespace pdl
