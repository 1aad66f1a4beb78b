#include "sim/report/explain_document.hpp"

#include <string>
#include <variant>

#include "sim/predict/predict.hpp"
#include "sim/predict/what_if.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

const std::string kSmall = "--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe ";

Document explained_document(const std::string& flags) {
  const RunResult run = predict(spec(flags), nullptr);
  return explain_document(run, explain_prediction(run, nullptr));
}

}  // namespace

TEST_CASE("where the step of a small pipeline goes, in a terminal of 80 columns") {
  check_golden("explain_gpipe_2_gpus.txt",
               to_terminal(explained_document(kSmall + "--tf 1 --tb 2 --tcomm 1"), {.width = 80}));
}

TEST_CASE("a chart has a bar a GPU, and a series for each part that there is") {
  const Document document = explained_document(kSmall + "--tf 1 --tb 2 --tcomm 1");
  for (const Block& block : document.blocks) {
    const auto* chart = std::get_if<ChartFigure>(&block);
    if (!chart) continue;
    CHECK(chart->kind == ChartKind::stacked_bar);
    CHECK(chart->x_labels == std::vector<std::string>{"GPU 0", "GPU 1"});
    REQUIRE(chart->series.size() == 3);
    CHECK(chart->series[0].name == "useful compute");
    CHECK(chart->series[0].y == std::vector<double>{6, 6});
    CHECK(chart->series[2].name == "transfers exposed");
    CHECK(chart->series[2].y == std::vector<double>{1, 1});
    return;
  }
  FAIL("no chart");
}

TEST_CASE("of a long critical path the 12 longest segments are shown, and the rest is counted") {
  const std::string text =
      to_terminal(explained_document(
                      "--dim 4 --batch 1 --depth 8 --gpus 8 --microbatches 1 --schedule gpipe --tf 1 --tb 2 --tcomm 1"),
                  {.width = 100});
  //   8 stages forward and back, the last one once, and 14 transfers: 29 segments
  CHECK_THAT(
      text, ContainsSubstring("The path has 17 further segments, none of them longer, which take 17.000 ms together."));
}

TEST_CASE("nothing to gain is said, and outside pipelines nobody fills or drains") {
  CHECK_THAT(to_terminal(explained_document(kSmall + "--tf 1 --tb 2"), {.width = 100}),
             ContainsSubstring("The removal of no single cost shortens the step."));
  const std::string ddp = to_terminal(
      explained_document("--dim 4 --batch 4 --gpus 2 --depth 1 --strategy ddp --tf 4 --tb 8 --tcomm 3 --straggler 1:6"),
      {.width = 100});
  CHECK(ddp.find("fill and drain") == std::string::npos);
  CHECK_THAT(ddp,
             ContainsSubstring("Without the sleep the step would take 15.000 ms instead of 21.000 ms, 28.6 % less"));
}

TEST_CASE("on the critical path transfers and collectives are not called exposed") {
  const std::string csv =
      to_csv(explained_document("--dim 4 --batch 4 --gpus 2 --depth 1 --strategy ddp --tf 4 --tb 8 --tcomm 3"));
  CHECK_THAT(csv, ContainsSubstring("\ncollectives,3,20,3\n"));
  CHECK_THAT(csv, ContainsSubstring(",all-reduce 0,collectives,3\n"));
  CHECK(csv.find("collectives exposed") == std::string::npos);
}

TEST_CASE("what is inside the tasks of the path is said below it, where there is something") {
  const RunResult run = predict(spec("--dim 4 --batch 1 --gpus 1 --depth 1 --tf 4 --tb 8"), nullptr);
  const std::string text = "waits for the host and contention inside them, 4.000 ms on the whole path";
  const std::vector<TimeOfTask> tasks = {{3'000'000, 0}, {5'000'000, 2'000'000}, {0, 0}};
  CHECK_THAT(to_terminal(explain_document(run, *explain(run, tasks)), {.width = 200}), ContainsSubstring(text));
  CHECK_THAT(to_terminal(explain_document(run, *explain(run)), {.width = 200}), !ContainsSubstring("inside them"));
}

TEST_CASE("of two runs it is said for each what its parts cannot tell") {
  const RunResult predicted = predict(spec(kSmall + "--tf 1 --tb 2"), nullptr);
  RunResult measured = predicted;
  measured.measured = true;
  const auto compared = [&](const RunResult& b, const Explanation& of_a, const Explanation& of_b) {
    return to_terminal(compare_explanations(predicted, of_a, b, of_b), {.width = 400});
  };
  const Explanation read = *explain(predicted);
  CHECK_THAT(compared(measured, read, read), ContainsSubstring("A: A prediction that is read from a file") &&
                                                 ContainsSubstring("B: The step is the one"));
  CHECK_THAT(compared(predicted, read, read), ContainsSubstring("A and B: A prediction that is read from a file"));
  const Explanation full = explain_prediction(predicted, nullptr);
  CHECK_THAT(compared(measured, full, read), !ContainsSubstring("A: ") && ContainsSubstring("B: The step is the one"));
}

TEST_CASE("of a run that was measured it is said what its parts cannot tell") {
  RunResult run = predict(spec(kSmall + "--tf 1 --tb 2"), nullptr);
  run.measured = true;
  CHECK_THAT(to_terminal(explain_document(run, *explain(run)), {.width = 200}),
             ContainsSubstring("The step is the one whose tasks were recorded."));
}
