#include "sim/report/trace.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/memory_over_time.hpp"
#include "sim/run/span_kinds.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;
using nlohmann::json;

namespace {

RunResult run_of(const std::string& flags) {
  return predict(spec(flags + " --tf 1 --tb 2"), nullptr);
}

json events_of(const std::vector<TracedRun>& runs) {
  std::ostringstream text;
  write_trace(text, runs);
  return json::parse(text.str())["traceEvents"];
}

std::vector<json> of_phase(const json& events, const std::string& phase) {
  std::vector<json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const json& event) { return event["ph"] == phase; });
  return found;
}

std::int64_t ns(const json& us) {
  return std::llround(us.get<double>() * 1000);
}

/// Names of processes or threads by their number.
std::map<std::int64_t, std::string> names(const json& events, const std::string& what) {
  std::map<std::int64_t, std::string> found;
  for (const json& event : of_phase(events, "M")) {
    if (event["name"] == what + "_name") found[event[what == "thread" ? "tid" : "pid"]] = event["args"]["name"];
  }
  return found;
}

/// By GPU and kind: how many spans, and their time.
using Sums = std::map<std::pair<std::string, std::string>, std::pair<int, std::int64_t>>;

Sums sums_of_trace(const json& events) {
  const auto processes = names(events, "process");
  Sums sums;
  for (const json& slice : of_phase(events, "X")) {
    if (slice["cat"] == "step") continue;
    auto& [count, total_ns] = sums[{processes.at(slice["pid"]), slice["args"]["kind"]}];
    ++count;
    total_ns += ns(slice["dur"]);
  }
  return sums;
}

Sums sums_of_run(const RunResult& run, const std::string& name) {
  Sums sums;
  for (const Span& span : run.timeline.spans) {
    auto& [count, total_ns] =
        sums[{"GPU " + std::to_string(span.worker) + ", " + name, kSpanKinds[static_cast<std::size_t>(span.kind)]}];
    ++count;
    total_ns += span.end_ns - span.start_ns;
  }
  return sums;
}

/// "GPU 0 F0 -> GPU 1 F0": the slices in which the ends of each arrow are.
std::vector<std::string> arrows_of_trace(const json& events) {
  const auto processes = names(events, "process");
  const auto slice_at = [&](const json& end) {
    for (const json& slice : of_phase(events, "X")) {
      if (slice["tid"] == end["tid"] && ns(slice["ts"]) <= ns(end["ts"]) &&
          ns(end["ts"]) < ns(slice["ts"]) + ns(slice["dur"]))
        return processes.at(slice["pid"]).substr(0, 5) + " " + slice["name"].get<std::string>();
    }
    return std::string("nothing");
  };
  std::map<std::int64_t, std::string> begins;
  std::vector<std::string> arrows;
  for (const json& event : events) {
    if (event["ph"] == "s") CHECK(begins.emplace(event["id"], slice_at(event)).second);
    if (event["ph"] != "f") continue;
    REQUIRE(begins.contains(event["id"]));
    CHECK(event["bp"] == "e");
    arrows.push_back(begins[event["id"]] + " -> " + slice_at(event));
    begins.erase(event["id"]);
  }
  CHECK(begins.empty());
  return arrows;
}

using Arrows = std::vector<std::string>;

}  // namespace

TEST_CASE("a trace of two GPUs: a process a GPU, a thread a stream, a slice a span") {
  const RunResult run = run_of("--gpus 2 --microbatches 1 --schedule gpipe --depth 2 --dim 4 --batch 8 --tcomm 0.5");
  const json events = events_of({{run, "predicted"}});
  CHECK(names(events, "process") ==
        std::map<std::int64_t, std::string>{{1, "predicted"}, {2, "GPU 0, predicted"}, {3, "GPU 1, predicted"}});
  const std::vector<json> slices = of_phase(events, "X");
  REQUIRE(slices.size() == run.timeline.spans.size() + 1);
  CHECK(slices[0]["name"] == "step");
  CHECK(slices[0]["dur"] == 7000.0);  // F 1, transfer 0.5, F 1, B 2, transfer 0.5, B 2
  CHECK(slices[1]["name"] == "F0");
  CHECK(slices[1]["dur"] == 1000.0);
  CHECK(slices[1]["args"] ==
        json{{"kind", "forward"}, {"stream", 2}, {"stage", 0}, {"microbatch", 0}, {"layers", "0-0"}, {"rows", 8}});
  CHECK(slices[2]["name"] == "send F0");
  CHECK(slices[2]["args"]["bytes"] == 8 * 4 * 4);
  CHECK(arrows_of_trace(events) == Arrows{"GPU 0 send F0 -> GPU 1 F0", "GPU 1 send B0 -> GPU 0 B0"});
}

TEST_CASE("a trace has every span once, whatever the program: sums by GPU and kind are the timeline's") {
  for (const std::string flags :
       {"--gpus 4 --microbatches 8 --schedule 1f1b", "--gpus 2 --schedule interleaved --microbatches 4 --tcomm 0.1",
        "--gpus 4 --schedule zb-v --microbatches 8", "--strategy ddp --gpus 4", "--strategy dp --gpus 3 --batch 9",
        "--strategy mp --gpus 4", "--gpus 4 --schedule 1f1b --dp 2 --microbatches 4", "--gpus 1"}) {
    INFO(flags);
    const RunResult run = run_of(flags + " --depth 8 --dim 16");
    const json events = events_of({{run, "a"}, {run, "b"}});
    Sums both = sums_of_run(run, "a");
    both.merge(sums_of_run(run, "b"));
    CHECK(sums_of_trace(events) == both);
    arrows_of_trace(events);
    // Slices of a thread do not overlap.
    std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> by_thread;
    for (const json& slice : of_phase(events, "X"))
      by_thread[slice["tid"]].emplace_back(ns(slice["ts"]), ns(slice["ts"]) + ns(slice["dur"]));
    for (auto& [tid, slices] : by_thread) {
      std::sort(slices.begin(), slices.end());
      for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i - 1].second <= slices[i].first);
    }
  }
}

TEST_CASE("an all-reduce has arrows to the GPU that joined last") {
  RunResult run = run_of("--strategy ddp --gpus 3 --depth 1 --dim 4 --batch 9 --bucket-mb 1000");
  for (Span& span : run.timeline.spans) {
    if (span.kind != TaskKind::all_reduce) continue;
    span.start_ns += span.worker == 1 ? 500 : 0;
    span.end_ns = 1000 + std::max(span.end_ns, span.start_ns);
    run.timeline.step_ns = std::max(run.timeline.step_ns, span.end_ns);
  }
  CHECK(arrows_of_trace(events_of({{run, "measured"}})) ==
        Arrows{"GPU 0 all-reduce 0 -> GPU 1 all-reduce 0", "GPU 2 all-reduce 0 -> GPU 1 all-reduce 0"});
}

TEST_CASE("a send has an arrow to its receive, and past a receive that was posted before it") {
  RunResult run = run_of("--gpus 2 --microbatches 1 --schedule gpipe --depth 2 --dim 4 --batch 8 --p2p rendezvous");
  for (Span& span : run.timeline.spans) {
    if (span.kind == TaskKind::send_forward || span.kind == TaskKind::receive_forward) {
      span.start_ns = span.kind == TaskKind::send_forward ? 900'000 : 900'100;
      span.end_ns = 1'000'000;
    }
    if (span.kind == TaskKind::send_backward || span.kind == TaskKind::receive_backward) {
      span.start_ns = span.kind == TaskKind::send_backward ? 3'900'000 : 1'000'000;
      span.end_ns = 4'000'000;
    }
  }
  CHECK(arrows_of_trace(events_of({{run, "measured"}})) ==
        Arrows{"GPU 0 send F0 -> GPU 1 receive F0", "GPU 1 send B0 -> GPU 0 B0"});
}

TEST_CASE("in a trace, spans that overlap on one stream are on two threads") {
  RunResult run = run_of("--gpus 1 --microbatches 2 --depth 2 --dim 4 --batch 8");
  REQUIRE(run.timeline.spans.size() >= 2);
  run.timeline.spans[1].start_ns = run.timeline.spans[0].end_ns - 1;
  std::set<std::string> threads;
  for (const auto& [tid, name] : names(events_of({{run, "measured"}}), "thread")) threads.insert(name);
  CHECK(threads == std::set<std::string>{"step", "compute", "compute 2"});
}

TEST_CASE("nanoseconds survive in a trace, also after hours") {
  RunResult run = drawn_run(1, {{0, "a"}});
  for (const std::int64_t at :
       {std::int64_t{1}, std::int64_t{999}, std::int64_t{1000}, std::int64_t{7'200'000'000'123}}) {
    run.timeline.spans[0].start_ns = at;
    run.timeline.spans[0].end_ns = run.timeline.step_ns = at + 1'001;
    std::ostringstream text;
    write_trace(text, {{run, "predicted"}});
    const std::string us = std::to_string(at / 1000) + "." + std::to_string(1000 + at % 1000).substr(1);
    CHECK_THAT(text.str(), ContainsSubstring("\"ts\": " + us + ", \"dur\": 1.001,"));
  }
}

TEST_CASE("a trace's counters: GPUs computing, and memory, of which the largest sum is the peak") {
  const RunResult run = run_of("--strategy mp --gpus 2 --depth 2 --dim 64 --batch 8");
  const json events = events_of({{run, "predicted"}});
  std::vector<std::pair<std::int64_t, int>> computing;
  std::map<std::int64_t, std::int64_t> peak;
  for (const json& counter : of_phase(events, "C")) {
    if (counter["name"] == "GPUs computing") {
      computing.emplace_back(ns(counter["ts"]), counter["args"]["GPUs"]);
    } else {
      std::int64_t sum = 0;
      for (const auto& [category, bytes] : counter["args"].items()) sum += bytes.get<std::int64_t>();
      peak[counter["pid"]] = std::max(peak[counter["pid"]], sum);
    }
  }
  CHECK(computing == std::vector<std::pair<std::int64_t, int>>{{0, 0}, {0, 1}, {6'000'000, 0}});
  CHECK(peak == std::map<std::int64_t, std::int64_t>{{2, run.peak_memory_bytes[0]}, {3, run.peak_memory_bytes[1]}});
}

TEST_CASE("a trace of a predicted and a measured run: each GPU's beside each other") {
  const RunResult run = run_of("--gpus 2 --microbatches 1 --schedule gpipe --depth 2 --dim 4 --batch 8");
  RunResult measured = run;
  measured.measured = true;
  CHECK(traced_runs(run, measured)[0].name + "; " + traced_runs(run, measured)[1].name == "predicted; measured");
  CHECK(traced_runs(run, run)[0].name + "; " + traced_runs(run, run)[1].name == "A, predicted; B, predicted");
  const auto processes = names(events_of({{run, "predicted"}, {run, "\"m\"\n\xff"}}), "process");
  CHECK(processes == std::map<std::int64_t, std::string>{{1, "predicted"},
                                                         {2, "\"m\"\n\xef\xbf\xbd"},
                                                         {3, "GPU 0, predicted"},
                                                         {4, "GPU 0, \"m\"\n\xef\xbf\xbd"},
                                                         {5, "GPU 1, predicted"},
                                                         {6, "GPU 1, \"m\"\n\xef\xbf\xbd"}});
}

TEST_CASE("a trace of spans that are not those of the plan has no bytes and no arrows, but every span") {
  RunResult run = run_of("--gpus 2 --microbatches 2 --schedule gpipe --depth 2 --dim 4 --batch 8 --tcomm 1");
  run.timeline.spans.pop_back();
  const json events = events_of({{run, "edited"}});
  CHECK(of_phase(events, "X").size() == run.timeline.spans.size() + 1);
  CHECK(arrows_of_trace(events).empty());
}

TEST_CASE("a trace that cannot be written is refused by the name of its file") {
  const RunResult run = drawn_run(1, {{0, "a"}});
  CHECK_THROWS_AS(write_trace(std::string(PDL_BINARY_DIR "/no such folder/a.json"), {{run, "predicted"}}), InputError);
  std::ostringstream text;
  CHECK_THROWS_AS(write_trace(text, {}), std::logic_error);
}
