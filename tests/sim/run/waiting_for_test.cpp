#include "sim/run/waiting_for.hpp"

#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// "1F0 after 0 send F0", a line a span; "GPU name".
std::string named_span(const RunResult& run, std::int32_t index) {
  const Span& span = run.timeline.spans.at(static_cast<std::size_t>(index));
  return std::to_string(span.worker) + " " + span_name(run, span, false);
}

std::string drawn_waits(const RunResult& run) {
  std::string text;
  const std::vector<std::int32_t> before = waited_for(run);
  for (std::size_t i = 0; i < before.size(); ++i) {
    text += named_span(run, static_cast<std::int32_t>(i)) + " after " +
            (before[i] < 0 ? "nothing" : named_span(run, before[i])) + "\n";
  }
  return text;
}

RunResult textbook(const std::string& flags) {
  return predict(spec(flags), nullptr);
}

}  // namespace

TEST_CASE("what the tasks of a pipeline of two stages waited for") {
  //   GPU 0  F0 F1 .. .. .. .. .. B0 B0 B1 B1     a send takes 1 ms, a backward 2
  //          .. s0 s1
  //   GPU 1  .. .. F0 F1 B0 B0 B1 B1 .. .. ..
  //          .. .. .. .. .. .. s0 .. s1 .. ..     ends when B0 of GPU 0 does: B1 waited for its stream
  const RunResult run =
      textbook("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --tcomm 1");
  CHECK(drawn_waits(run) ==
        "0 F0 after nothing\n"
        "0 send F0 after 0 F0\n"
        "0 F1 after 0 F0\n"
        "0 send F1 after 0 send F0\n"
        "0 B0 after 1 send B0\n"
        "0 B1 after 0 B0\n"
        "0 optimizer after 0 B1\n"
        "1 F0 after 0 send F0\n"
        "1 F1 after 1 F0\n"
        "1 B0 after 1 F1\n"
        "1 send B0 after 1 B0\n"
        "1 B1 after 1 B0\n"
        "1 send B1 after 1 B1\n"
        "1 optimizer after 1 B1\n");
}

TEST_CASE("a send that was ready first waited for its receive, whose own reason is the GPU that came late") {
  const RunResult run = textbook(
      "--dim 4 --batch 1 --depth 2 --gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --tcomm 1 --p2p rendezvous "
      "--straggler 1:5");
  const std::string waits = drawn_waits(run);
  CHECK(waits.find("0 send F0 after 1 receive F0\n") != std::string::npos);
  CHECK(waits.find("1 receive F0 after 1 sleep\n") != std::string::npos);
  CHECK(waits.find("1 F0 after 1 receive F0\n") != std::string::npos);
}

TEST_CASE("beside a sleep there is what a task would have waited for without it") {
  const RunResult run =
      textbook("--dim 4 --batch 1 --depth 2 --gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --straggler 1:5");
  for (std::size_t i = 0; i < run.timeline.spans.size(); ++i) {
    if (named_span(run, static_cast<std::int32_t>(i)) != "1 F0") continue;
    CHECK(named_span(run, last_before(run).at(i)) == "1 sleep");
    CHECK(named_span(run, last_before_without_sleeps(run).at(i)) == "0 send F0");
    return;
  }
  FAIL("no F0 of GPU 1");
}

TEST_CASE("a task that began later than all it depends on waited for its host") {
  RunResult run =
      textbook("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --tcomm 1");
  Span& optimizer = run.timeline.spans.at(6);
  optimizer.start_ns += 19'000;
  CHECK(waited_for(run).at(6) == -1);
  CHECK(last_before(run).at(6) == 5);
  run.measured = true;
  CHECK(waited_for(run).at(6) == 5);
  optimizer.start_ns += 2'000;
  CHECK(waited_for(run).at(6) == -1);
}

TEST_CASE("a send and its receive that begin within the clocks' error wait for what held either") {
  RunResult run = textbook(
      "--dim 4 --batch 1 --depth 2 --gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --tcomm 1 --p2p "
      "rendezvous");
  const auto named = [&](const std::string& name) {
    for (std::size_t i = 0; i < run.timeline.spans.size(); ++i) {
      if (named_span(run, static_cast<std::int32_t>(i)) == name) return i;
    }
    FAIL(name);
    return std::size_t{0};
  };
  //   GPU 1's receive was ready at 0 and waited for the send, which waited for F0
  CHECK(named_span(run, waited_for(run).at(named("1 receive F0"))) == "0 send F0");
  run.measured = true;
  run.timeline.spans[named("1 receive F0")].start_ns = run.timeline.spans[named("0 send F0")].start_ns + 46;
  CHECK(named_span(run, waited_for(run).at(named("1 receive F0"))) == "0 F0");
  CHECK(named_span(run, waited_for(run).at(named("0 send F0"))) == "0 F0");
}

TEST_CASE("on the CPU a task waits for whatever its host did before it") {
  RunResult run = textbook("--dim 4 --batch 2 --depth 2 --gpus 2 --strategy mp --tf 1 --tb 2");
  const std::size_t last = run.timeline.spans.size() - 1;
  CHECK(named_span(run, static_cast<std::int32_t>(last)) == "1 optimizer");
  run.timeline.spans[last].start_ns = run.timeline.spans[last - 1].end_ns;  // one thread: after that of GPU 0
  run.timeline.spans[last].end_ns = run.timeline.spans[last].start_ns;
  CHECK(last_before(run).at(last) != static_cast<std::int32_t>(last) - 1);
  run.environment = {{"profile", {{"device", "cpu"}}}};
  CHECK(last_before(run).at(last) == static_cast<std::int32_t>(last) - 1);
}

TEST_CASE("on the CPU one thread makes both ends of a copy, and neither waits for the other") {
  RunResult run = textbook("--dim 4 --batch 2 --depth 2 --gpus 2 --strategy mp --tf 1 --tb 2 --tcomm 1");
  run.measured = true;
  run.environment = {{"device", "cpu"}};
  for (Span& span : run.timeline.spans) {
    if (span.kind == TaskKind::receive_forward) span.start_ns = 1'000'046;  // as measured: when the thread comes to it
  }
  const std::string waits = drawn_waits(run);
  CHECK(waits.find("0 send F0 after 0 F0\n") != std::string::npos);
  CHECK(waits.find("1 receive F0 after 0 F0\n") != std::string::npos);
}

TEST_CASE("of spans that are not those of the plan nothing is said") {
  RunResult run = textbook("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2");
  run.timeline.spans.at(3).microbatch = 7;
  CHECK(waited_for(run).empty());
  run.timeline.spans.pop_back();
  CHECK(waited_for(run).empty());
}
