// Timelines as the page draws them: rows of a GPU and stream, each a few columns of numbers; JSON for page.js.
//
//   TimelineData data = timeline_data({&predicted, &measured}, {.most_items = 150'000});
//   data.rows[0]             // GPU 0, compute stream, run 0: spans in the order of their starts, none above another
//   data.merged_below_ns     // 0: every span is in `spans`
//
// With more spans than `most_items`, those shorter than merged_below_ns are not in the spans of rows, but in shares:
// how long each kind of task took in each interval of that length. The shortest such length that fits is taken. The sum
// of the times of a kind stays what it was, to the nanosecond:
//
//   F0 F1 F2 |B0 ...|      merged_below_ns = |      |:  share {interval 0, forward, 3 short spans}, span B0
//
// A row is a stream as long as nothing of it overlaps; else what overlaps goes to a further row of the same stream.
// Spans of no length are left out: there is nothing to see. Of many GPUs the first and the last are drawn.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

struct TimelineRun {
  const RunResult* run = nullptr;
  /// For each span of the timeline the index of the span that it began after, -1: none; empty: not known.
  std::vector<std::int32_t> began_after{};
};

struct TimelineLimits {
  std::size_t most_items = 150'000;  // spans and shares of all rows: about 25 bytes of JSON each
  std::size_t most_gpus = 64;
};

struct DrawnSpan {
  TaskKind kind = TaskKind::forward;
  std::int32_t stage = 0;  // counted in its replica
  std::int32_t microbatch = -1;
  std::uint32_t part = 0;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t waiting_ns = 0;    // of the duration, at the start: for the other GPUs of a transfer or collective
  std::int32_t began_after = -1;  // index over the spans of all rows of its run, row after row
};

/// What tasks of a kind that are too short to be seen take of the interval [index, index + 1) x merged_below_ns.
struct DrawnShare {
  std::int64_t interval = 0;
  TaskKind kind = TaskKind::forward;
  std::int64_t busy_ns = 0;
};

struct TimelineRow {
  std::size_t run = 0;
  std::int32_t gpu = 0;
  StreamRole stream = StreamRole::compute;
  bool several_stages = false;  // the GPU holds several: names of its tasks carry the stage
  std::vector<DrawnSpan> spans{};
  std::vector<DrawnShare> shares{};  // by interval, then kind
};

struct TimelineData {
  std::int64_t end_ns = 0;           // the longest step of all runs
  std::int64_t merged_below_ns = 0;  // 0: nothing is merged
  std::size_t spans = 0;             // of the drawn GPUs, with a length
  std::size_t merged = 0;            // of these, in shares
  std::int32_t gpus = 0;
  std::int32_t drawn_gpus = 0;
  std::vector<TimelineRow> rows{};  // by GPU, stream, run
};

TimelineData timeline_data(const std::vector<TimelineRun>& runs, const TimelineLimits& limits);

/// "4 GPUs, 2,560 tasks, step time 12.30 ms predicted, 12.90 ms measured." and what is merged or left out.
std::string timeline_summary(const TimelineData& data, const std::vector<TimelineRun>& runs);

/// Columns of numbers instead of objects, starts as distances from the end before: see page.js.
nlohmann::ordered_json timeline_json(const TimelineData& data, const std::vector<TimelineRun>& runs);

}  // namespace pdl
