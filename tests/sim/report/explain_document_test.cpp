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
             ContainsSubstring("Without collectives the step would take 18.000 ms instead of 21.000 ms, 14.3 % less"));
}

TEST_CASE("of a run that was measured it is said what its parts cannot tell") {
  RunResult run = predict(spec(kSmall + "--tf 1 --tb 2"), nullptr);
  run.measured = true;
  CHECK_THAT(to_terminal(explain_document(run, *explain(run)), {.width = 200}),
             ContainsSubstring("The step is the one whose tasks were recorded."));
}
