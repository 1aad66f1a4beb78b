#include "sim/run/explain.hpp"

#include <string>

#include "sim/predict/predict.hpp"
#include "sim/predict/what_if.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// Whole milliseconds of each part that is there: "useful 4, fill_and_drain 2".
std::string drawn_parts(const TimeByPart& time) {
  std::string text;
  for (std::size_t p = 0; p < kStepParts; ++p) {
    if (time.ns[p] == 0) continue;
    const std::int64_t ms = time.ns[p] / 1'000'000;
    CHECK(ms * 1'000'000 == time.ns[p]);
    text += (text.empty() ? "" : ", ") + std::string(to_string(static_cast<StepPart>(p))) + " " + std::to_string(ms);
  }
  return text;
}

std::string drawn_path(const Explanation& explanation) {
  std::string text;
  for (const PathSegment& segment : explanation.critical_path)
    text += std::to_string(segment.start_ns / 1'000'000) + " GPU " + std::to_string(segment.gpu) + " " + segment.name +
            ", ";
  return text + std::to_string(explanation.critical_path.back().end_ns / 1'000'000);
}

Explanation explained(const std::string& flags) {
  return explain_prediction(predict(spec("--dim 4 " + flags), nullptr), nullptr);
}

}  // namespace

TEST_CASE("GPipe without transfers: all that is not useful is fill and drain, (P - 1) of (M + P - 1)") {
  //   GPU 0  F0 F1 .. .. B0 B1
  //   GPU 1  .. F0 F1 B0 B1 ..
  const Explanation two = explained("--batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tf 1 --tb 1");
  CHECK(two.step_ns == 6'000'000);
  CHECK(drawn_parts(two.gpus[0]) == "useful 4, fill_and_drain 2");
  CHECK(drawn_parts(two.gpus[1]) == "useful 4, fill_and_drain 2");
  CHECK(drawn_path(two) == "0 GPU 0 F0, 1 GPU 1 F0 to B0, 4 GPU 0 B0 to B1, 6");
  for (const std::int64_t gpus : {2, 3, 5}) {
    for (const std::int64_t microbatches : {1, 4, 7}) {
      const std::string p = std::to_string(gpus), m = std::to_string(microbatches);
      const Explanation many = explained("--batch " + m + " --depth " + p + " --gpus " + p + " --microbatches " + m +
                                         " --schedule gpipe --tf 1 --tb 3");
      for (const TimeByPart& gpu : many.gpus) {
        CHECK(gpu[StepPart::fill_and_drain] * (microbatches + gpus - 1) == many.step_ns * (gpus - 1));
        CHECK(gpu.sum_ns() == many.step_ns);
      }
    }
  }
}

TEST_CASE("a stage that takes twice as long makes the other wait: imbalance, beside fill and drain") {
  //   GPU 0  F0 F1 F2 .. .. .. .. .. .. B0 .. B1 .. B2      forward and backward 1 ms each, on GPU 1 2 ms
  //   GPU 1  .. F0 F0 F1 F1 F2 F2 B0 B0 B1 B1 B2 B2 ..
  const Explanation e = explained("--batch 3 --depth 2 --gpus 2 --microbatches 3 --schedule gpipe --tf 1,2 --tb 1,2");
  CHECK(e.step_ns == 14'000'000);
  CHECK(drawn_parts(e.gpus[0]) == "useful 6, fill_and_drain 2, imbalance 6");
  CHECK(drawn_parts(e.gpus[1]) == "useful 12, fill_and_drain 2");
  CHECK(drawn_path(e) == "0 GPU 0 F0, 1 GPU 1 F0 to B2, 13 GPU 0 B2, 14");
  REQUIRE(e.without.size() == 2);
  CHECK(e.without[0].what == "imbalance");
  CHECK(e.without[0].step_time_ms == 12);  // (M + P - 1) x (1.5 + 1.5)
  CHECK(e.without[1].what == "ideal");
  CHECK(e.without[1].step_time_ms == 14);
}

TEST_CASE("a gap in which a transfer runs is the transfer's, the rest of it the other stage's") {
  //   GPU 0  F0 .. .. .. .. .. .. .. B0        transfers take 2 ms
  //          .. s0 s0
  //   GPU 1  .. .. .. F0 B0 B0 .. .. ..        GPU 0 waits 2 + 3 + 2
  //          .. .. .. .. .. .. s0 s0
  const Explanation e =
      explained("--batch 1 --depth 2 --gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --tcomm 2");
  CHECK(e.step_ns == 10'000'000);
  CHECK(drawn_parts(e.gpus[0]) == "useful 3, fill_and_drain 3, transfers 4");
  CHECK(drawn_parts(e.gpus[1]) == "useful 3, fill_and_drain 3, transfers 4");
  CHECK(drawn_path(e) == "0 GPU 0 F0, 1 GPU 0 send F0, 3 GPU 1 F0 to B0, 6 GPU 1 send B0, 8 GPU 0 B0, 10");
  CHECK(drawn_parts(e.critical_path_by_part) == "useful 6, transfers 4");
  REQUIRE(e.without.front().what == "transfers");
  CHECK(e.without.front().step_time_ms == 6);
}

TEST_CASE("DDP: what of the all-reduce nothing hides is exposed, and the sleep of a straggler is everybody's") {
  const std::string ddp = "--strategy ddp --gpus 2 --depth 1 --batch 4 --tf 4 --tb 8 --tcomm 3";
  //   forward 4, backward 8, then the only bucket's all-reduce
  const Explanation even = explained(ddp);
  CHECK(even.step_ns == 15'000'000);
  CHECK(drawn_parts(even.gpus[0]) == "useful 12, collectives 3");
  //   GPU 1 sleeps 6 ms before its forward: GPU 0 waits as long in the all-reduce, for the backward of GPU 1
  const Explanation late = explained(ddp + " --straggler 1:6");
  CHECK(late.step_ns == 21'000'000);
  CHECK(drawn_parts(late.gpus[0]) == "useful 12, collectives 3, sleep 6");
  CHECK(drawn_parts(late.gpus[1]) == "useful 12, collectives 3, sleep 6");
  CHECK(drawn_parts(late.critical_path_by_part) == "useful 12, collectives 3, sleep 6");
  CHECK(drawn_path(late) == "0 GPU 1 sleep, 6 GPU 1 F0 to B0, 18 GPU 0 all-reduce 0, 21");
}

TEST_CASE("a sleep in a pipeline counts for the GPUs that it makes wait, as much as it holds them up") {
  //   GPU 0  F0 .. .. .. .. .. .. .. B0 B0       GPU 1 sleeps 4 ms, of which 1 ms beside F0 of GPU 0. GPU 0 waits 3 ms
  //   GPU 1  zz zz zz zz F0 B0 B0 .. .. ..       for the sleep and 3 ms for F0 and B0 of GPU 1
  const std::string two = "--batch 1 --depth 2 --gpus 2 --microbatches 1 --schedule gpipe --tf 1 --tb 2";
  const Explanation late = explained(two + " --straggler 1:4");
  CHECK(late.step_ns == 9'000'000);
  CHECK(drawn_parts(late.gpus[0]) == "useful 3, fill_and_drain 3, sleep 3");
  CHECK(drawn_parts(late.gpus[1]) == "useful 3, fill_and_drain 2, sleep 4");
  //   4 stages: GPU 0 sees 3 ms of the sleep in the gap before B0 itself, and 3 more have held up what it waits for
  const Explanation longer =
      explained("--batch 4 --depth 4 --gpus 4 --microbatches 4 --schedule 1f1b --tf 1 --tb 2 --straggler 1:7");
  CHECK(longer.step_ns == 27'000'000);
  CHECK(drawn_parts(longer.gpus[0]) == "useful 12, fill_and_drain 9, sleep 6");
  for (const std::size_t gpu : {1, 2, 3})
    CHECK(drawn_parts(longer.gpus[gpu]) == "useful 12, fill_and_drain 8, sleep 7");
  //   A sleep that the first stage hides holds nobody up
  CHECK(drawn_parts(explained(two + " --straggler 1:1").gpus[0]) == "useful 3, fill_and_drain 3");
}

TEST_CASE("where steps overlap a GPU begins with its sleep, for which the others wait") {
  const Explanation late =
      explained("--batch 8 --depth 4 --gpus 4 --microbatches 8 --schedule zb-h2 --tf 1 --tb 1 --tw 1 --straggler 0:5");
  CHECK(late.step_ns == 29'000'000);
  for (const TimeByPart& gpu : late.gpus) CHECK(drawn_parts(gpu) == "useful 24, sleep 5");
}

TEST_CASE("what is known of a task alone splits its span") {
  RunResult run = predict(spec("--dim 4 --batch 1 --gpus 1 --depth 1 --tf 4 --tb 8"), nullptr);
  const std::vector<TimeOfTask> tasks = {{3'000'000, 0}, {5'000'000, 2'000'000}, {0, 0}};
  REQUIRE(run.timeline.spans.size() == tasks.size());
  const std::optional<Explanation> e = explain(run, tasks);
  REQUIRE(e);
  CHECK(e->times_alone_known);
  CHECK(drawn_parts(e->gpus[0]) == "useful 8, host 2, contention 2");
  CHECK(drawn_parts(e->critical_path_by_part) == "useful 8, host 2, contention 2");
  CHECK(drawn_parts(explain(run)->gpus[0]) == "useful 12");
}

TEST_CASE("what comes after the last task is the host's: the overhead of the step") {
  RunResult run = predict(spec("--dim 4 --batch 1 --gpus 1 --depth 1 --tf 4 --tb 8"), nullptr);
  run.timeline.step_ns += 1'000'000;
  CHECK(drawn_parts(explain(run)->gpus[0]) == "useful 12, host 1");
}

TEST_CASE("spans that are not those of the plan are not explained") {
  RunResult run = predict(spec("--dim 4 --batch 1 --gpus 1 --depth 1 --tf 4 --tb 8"), nullptr);
  run.timeline.spans.pop_back();
  CHECK_FALSE(explain(run));
}

TEST_CASE("an explanation is in the JSON of a run that is given one, and nothing else changes") {
  const RunResult run = predict(spec("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --tf 1 --tb 1"), nullptr);
  const Explanation explanation = explain_prediction(run, nullptr);
  nlohmann::ordered_json with = to_json(run, &explanation);
  CHECK(with["explain"]["step_ms"] == 6);
  CHECK(with["explain"]["mean"]["useful_ms"] == 4);
  CHECK(with["explain"]["gpus"][1]["fill_and_drain_ms"] == 2);
  CHECK(with["explain"]["critical_path"]["segments"][0]["name"] == "F0");
  with.erase("explain");
  CHECK(with == to_json(run));
  CHECK(to_json(run_from_json(nlohmann::json::parse(run_text(run, &explanation)), "run.json")) == to_json(run));
}
