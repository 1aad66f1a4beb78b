#include "sim/report/compare_document.hpp"

#include <memory>

#include "sim/predict/predict.hpp"
#include "sim/run/comparison.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/golden.hpp"

using namespace pdl;

namespace {

RunResult predicted() {
  RunResult run =
      drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}, {1, "..........<<..."}});
  run.peak_memory_bytes = {1 << 30, 3 << 28};
  run.environment = {{"profile", {{"name", "tiny"}, {"card", "Tiny GPU"}, {"count", 2}, {"date", "2026-01-02"}}}};
  return run;
}

RunResult measured() {
  RunResult run = drawn_run(
      2, {{0, "aaabb....BBBAAAAo"}, {0, "...>>............"}, {1, "....aabbBBBAAA..o"}, {1, "...........<<...."}});
  run.measured = true;
  run.step_time = {17.1, 17.0, 17.2, 30};
  run.peak_memory_bytes = {1 << 30, 1 << 30};
  run.environment = {{"card", "Tiny GPU"}, {"count", 2}, {"date", "2026-01-03"}};
  return run;
}

std::string comparison(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                       bool with_gantt = false, std::size_t width = 160) {
  const RunStyle style{.with_gantt = with_gantt, .gantt = {.width = width}};
  const ComparedRun left{name_a, std::make_shared<const RunResult>(a)};
  const ComparedRun right{name_b, std::make_shared<const RunResult>(b)};
  return to_terminal(compare_document(left, right, style), {.width = width});
}

}  // namespace

TEST_CASE("predicted and measured side by side") {
  check_golden("compare.txt", comparison(predicted(), "predicted.json", measured(), "measured.json", true, 80));
}

TEST_CASE("settings that differ are said") {
  RunResult other = drawn_run(3, {{0, "aA.."}, {1, ".aA."}, {2, "..aA"}});
  const std::string text = comparison(predicted(), "a", other, "b");
  CHECK_THAT(text, ContainsSubstring("differs: gpus is 2 in A, 3 in B"));
  CHECK_THAT(text, ContainsSubstring("differs: microbatches is 2 in A, 1 in B"));
}

TEST_CASE("the same settings by two programs are said to be that") {
  const std::string flags = "--gpus 2 --depth 4 --dim 64 --batch 64 --schedule gpipe --tf 4 --tb 8 --tcomm 8";
  const RunResult by_pytorch = predict(spec(flags + " --program pytorch"), nullptr),
                  by_pdl = predict(spec(flags), nullptr);
  const std::string text = comparison(by_pytorch, "a", by_pdl, "b");
  CHECK_THAT(text, ContainsSubstring("The same settings by two programs: A is PyTorch's, B is pdl-run's."));
  CHECK_THAT(text, ContainsSubstring("differs: program is pytorch in A, pdl in B"));
  CHECK_THAT(comparison(by_pdl, "a", by_pdl, "b"), !ContainsSubstring("two programs"));
}

TEST_CASE("outside pipelines the idle share is compared, under a name of its own") {
  const auto ddp = [](const std::string& flags) {
    const std::string model = "--strategy ddp --gpus 2 --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8";
    return predict(spec(model + flags), nullptr);
  };
  const std::string text = comparison(ddp(" --straggler 1:6"), "a", ddp(""), "b");
  CHECK_THAT(text, ContainsSubstring("  idle (ms)  "));
  CHECK_THAT(text, ContainsSubstring("  idle share (%)"));
  // Beside a pipeline too: a bubble is no measure of both.
  const RunResult pipeline =
      predict(spec("--gpus 2 --microbatches 4 --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8"), nullptr);
  CHECK_THAT(comparison(pipeline, "a", ddp(""), "b"),
             !ContainsSubstring("bubble") && ContainsSubstring("idle share (%)"));
  // A: 26 ms, of which each computes 12, communicates 8 and is idle 6. B: 20 ms, and nobody is idle.
  CHECK_THAT(text, ContainsSubstring("  0  A       12.000               8.000      6.000            23.1 "));
  CHECK_THAT(text, ContainsSubstring("  0  B       12.000               8.000      0.000             0.0 "));
}

TEST_CASE("where two steps go: side by side, if both are explained") {
  const auto side = [](const char* name, const std::string& times) {
    const RunResult run =
        predict(spec("--dim 4 --batch 2 --depth 2 --gpus 2 --microbatches 2 --schedule gpipe --tb 2" + times), nullptr);
    return ComparedRun{name, std::make_shared<const RunResult>(run), explain(run)};
  };
  const RunStyle style{.with_gantt = false};
  const ComparedRun a = side("a", " --tf 1 --tcomm 1"), b = side("b", " --tf 1");
  const std::string csv = to_csv(compare_document(a, b, style));
  //   A: 11 ms, of which each GPU waits 1 for transfers that it needs. B: 9 ms
  CHECK_THAT(csv, ContainsSubstring("\nuseful compute,6,6,0,54."));
  CHECK_THAT(csv, ContainsSubstring("\ntransfers exposed,1,0,1,9.0"));
  CHECK_THAT(csv, ContainsSubstring("\nstep,11,9,2,100,100\n"));
  CHECK(to_terminal(compare_document({a.name, a.run}, b, style), {.width = 80}).find("Where the steps go") ==
        std::string::npos);
}

TEST_CASE("a comparison says whether the measured step lies inside the error bar") {
  RunResult prediction = predicted(), run = measured();
  prediction.error_bar = ErrorBar{10, 0, {}};  // 15 +- 1.5 ms
  const auto text = [&] { return comparison(prediction, "a", run, "b"); };
  CHECK_THAT(text(),
             ContainsSubstring("The measured step time, 17.100 ms, lies outside the predicted 15.000 +- 1.500 ms"));
  CHECK_THAT(text(), ContainsSubstring("\nhalf width          %                 10.00            -               -\n"));
  CHECK(compare_json(prediction, "a", run, "b")["measured_inside"] == false);
  CHECK(compare_json(prediction, "a", run, "b")["step_time_half_width_90_percent"]["a"] == 10);
  prediction.error_bar->half_width_percent = 20;
  CHECK_THAT(text(), ContainsSubstring("lies inside the predicted 15.000 +- 3.000 ms"));
  CHECK(compare_json(run, "b", prediction, "a")["measured_inside"] == true);  // whichever comes first
  run.spec.batch = 8;                                                         // another configuration
  CHECK_THAT(text(), !ContainsSubstring("lies inside"));
  prediction.error_bar.reset();
  CHECK_THAT(comparison(prediction, "a", measured(), "b"), !ContainsSubstring("half width"));
  CHECK_FALSE(compare_json(prediction, "a", measured(), "b").contains("measured_inside"));
}
