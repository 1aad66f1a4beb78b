#include "sim/report/timeline_figure.hpp"

#include <map>

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

std::map<TaskKind, std::int64_t> time_by_kind(const TimelineData& data) {
  std::map<TaskKind, std::int64_t> sums;
  for (const TimelineRow& row : data.rows) {
    for (const DrawnSpan& span : row.spans) sums[span.kind] += span.duration_ns;
    for (const DrawnShare& share : row.shares) sums[share.kind] += share.busy_ns;
  }
  return sums;
}

std::map<TaskKind, std::int64_t> time_by_kind(const Timeline& timeline) {
  std::map<TaskKind, std::int64_t> sums;
  for (const Span& span : timeline.spans) sums[span.kind] += span.end_ns - span.start_ns;
  return sums;
}

/// One GPU that computes `count` spans of 900 ns, forward and backward by turns, 1000 ns apart.
RunResult many_short_spans(std::int64_t count) {
  RunResult run = drawn_run(1, {{0, "a"}});
  run.timeline.spans.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    Span span = drawn_span(0, i % 2 == 0 ? 'a' : 'A');
    span.start_ns = 1000 * i;
    span.end_ns = span.start_ns + 900;
    run.timeline.spans.push_back(span);
  }
  run.timeline.step_ns = 1000 * count;
  return run;
}

}  // namespace

TEST_CASE("a row a GPU and stream, spans in the order of their starts") {
  const RunResult run = drawn_run(2, {{0, "aabb..BB"}, {0, "..>....."}, {1, "...abBB."}});
  const TimelineData data = timeline_data({{&run, {}}}, {});
  REQUIRE(data.rows.size() == 3);
  CHECK(data.rows[0].gpu == 0);
  CHECK(data.rows[0].stream == StreamRole::compute);
  CHECK(data.rows[1].stream == StreamRole::send_forward);
  CHECK(data.rows[2].gpu == 1);
  CHECK(data.spans == 7);
  CHECK(data.merged_below_ns == 0);
  REQUIRE(data.rows[0].spans.size() == 3);
  CHECK(data.rows[0].spans[2].start_ns == 6 * kMillisecond);
  CHECK(data.rows[0].spans[2].duration_ns == 2 * kMillisecond);
  CHECK(time_by_kind(data) == time_by_kind(run.timeline));
}

TEST_CASE("two runs: the rows of a stream above each other") {
  const RunResult predicted = drawn_run(1, {{0, "aA"}, {0, ".>"}});
  RunResult measured = drawn_run(1, {{0, "aaA"}, {0, "..>"}});
  measured.measured = true;
  const TimelineData data = timeline_data({{&predicted, {}}, {&measured, {}}}, {});
  REQUIRE(data.rows.size() == 4);
  CHECK(data.rows[0].run == 0);
  CHECK(data.rows[1].run == 1);
  CHECK(data.rows[1].stream == StreamRole::compute);
  CHECK(data.rows[2].stream == StreamRole::send_forward);
  CHECK(data.end_ns == 3 * kMillisecond);
  CHECK(timeline_summary(data, {{&predicted, {}}, {&measured, {}}}) ==
        "1 GPU, 6 tasks; the step takes 2.000 ms (predicted) and 3.000 ms (measured).");
  CHECK(timeline_summary(data, {{&measured, {}}, {&measured, {}}}) ==
        "1 GPU, 6 tasks; the step takes 3.000 ms (A, measured) and 3.000 ms (B, measured).");
}

TEST_CASE("what overlaps on a stream goes to a further row of it") {
  RunResult run = drawn_run(1, {{0, "aaa."}, {0, ".b.."}, {0, "...c"}});
  const TimelineData data = timeline_data({{&run, {}}}, {});
  REQUIRE(data.rows.size() == 2);
  CHECK(data.rows[0].spans.size() == 2);
  CHECK(data.rows[1].spans.size() == 1);
  CHECK(data.rows[1].spans[0].microbatch == 1);
}

TEST_CASE("what a span waited for is found past spans of no length, which are not drawn") {
  RunResult run = drawn_run(1, {{0, "ab"}, {0, ".>"}});
  Span nothing = drawn_span(0, '<');
  nothing.start_ns = nothing.end_ns = kMillisecond;
  run.timeline.spans.push_back(nothing);
  // b after the send of no length, which is after a; the send after b.
  const TimelineData data = timeline_data({{&run, {-1, 3, 1, 0}}}, {});
  REQUIRE(data.rows.size() == 2);
  CHECK(data.spans == 3);
  CHECK(data.rows[0].spans[0].began_after == -1);
  CHECK(data.rows[0].spans[1].began_after == 0);
  CHECK(data.rows[1].spans[0].began_after == 1);
}

TEST_CASE("more spans than a page has are merged, and no nanosecond of a kind is lost") {
  const RunResult run = many_short_spans(1'000'000);
  const TimelineData data = timeline_data({{&run, {}}}, {.most_items = 10'000});
  CHECK(data.spans == 1'000'000);
  CHECK(data.merged == 1'000'000);
  CHECK(data.merged_below_ns == 100 * (1 << 11));  // 204.8 us: 4,883 intervals of two kinds; half of that does not fit
  std::size_t items = 0;
  for (const TimelineRow& row : data.rows) items += row.spans.size() + row.shares.size();
  CHECK(items <= 10'000);
  CHECK(items > 2'000);
  CHECK(time_by_kind(data) == time_by_kind(run.timeline));
}

TEST_CASE("spans that are long enough stay among those that are merged") {
  RunResult run = many_short_spans(100);
  Span longer = drawn_span(0, 'o');
  longer.start_ns = run.timeline.step_ns;
  longer.end_ns = run.timeline.step_ns += kMillisecond;
  run.timeline.spans.push_back(longer);
  const TimelineData data = timeline_data({{&run, {}}}, {.most_items = 30});
  REQUIRE(data.rows.size() == 1);
  REQUIRE(data.rows[0].spans.size() == 1);
  CHECK(data.rows[0].spans[0].kind == TaskKind::optimizer);
  CHECK(data.merged == 100);
  CHECK(time_by_kind(data) == time_by_kind(run.timeline));
  CHECK(timeline_summary(data, {{&run, {}}}).find("100 of them, are merged") != std::string::npos);
}

TEST_CASE("of many GPUs the first and the last are on a timeline") {
  const RunResult run = drawn_run(5, {{0, "a"}, {1, "a"}, {2, "a"}, {3, "a"}, {4, "a"}});
  const TimelineData data = timeline_data({{&run, {}}}, {.most_gpus = 3});
  REQUIRE(data.rows.size() == 3);
  CHECK(data.rows[1].gpu == 1);
  CHECK(data.rows[2].gpu == 4);
  CHECK(data.gpus == 5);
}

TEST_CASE("the JSON of a timeline: columns of numbers, one number where all are equal") {
  const RunResult run = drawn_run(1, {{0, "aa.bb"}});
  const std::vector<TimelineRun> runs = {{&run, {-1, 0}}};
  const auto json = timeline_json(timeline_data(runs, {}), runs);
  const auto& row = json["rows"][0];
  CHECK(row["gap_ns"] == nlohmann::ordered_json({0, kMillisecond}));
  CHECK(row["duration_ns"] == 2 * kMillisecond);
  CHECK(row["microbatch"] == nlohmann::ordered_json({0, 1}));
  CHECK(row["began_after"] == nlohmann::ordered_json({0, -1}));
  CHECK(json["kinds"].size() == kTaskKinds);
  CHECK(json["runs"] == nlohmann::ordered_json({"predicted"}));
}
