#include "sim/report/compare_text.hpp"

#include "sim/predict/predict.hpp"
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

}  // namespace

TEST_CASE("predicted and measured side by side") {
  ViewStyle style;
  style.gantt.width = 80;
  check_golden("compare.txt", compare_text(predicted(), "predicted.json", measured(), "measured.json", style));
}

TEST_CASE("settings that differ are said") {
  RunResult other = drawn_run(3, {{0, "aA.."}, {1, ".aA."}, {2, "..aA"}});
  ViewStyle style;
  style.with_gantt = false;
  const std::string text = compare_text(predicted(), "a", other, "b", style);
  CHECK_THAT(text, ContainsSubstring("differs: gpus is 2 in A, 3 in B"));
  CHECK_THAT(text, ContainsSubstring("differs: microbatches is 2 in A, 1 in B"));
}

TEST_CASE("outside pipelines the idle share is compared, under a name of its own") {
  const auto ddp = [](const std::string& flags) {
    const std::string model = "--strategy ddp --gpus 2 --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8";
    return predict(spec(model + flags), nullptr);
  };
  ViewStyle style;
  style.with_gantt = false;
  const std::string text = compare_text(ddp(" --straggler 1:6"), "a", ddp(""), "b", style);
  CHECK_THAT(text, ContainsSubstring("  idle A  "));
  CHECK_THAT(text, ContainsSubstring("  idle share A  "));
  // Beside a pipeline too: a bubble is no measure of both.
  const RunResult pipeline =
      predict(spec("--gpus 2 --microbatches 4 --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8"), nullptr);
  CHECK_THAT(compare_text(pipeline, "a", ddp(""), "b", style),
             !ContainsSubstring("bubble") && ContainsSubstring("idle share A"));
  // A: 26 ms, of which each computes 12, communicates 8 and is idle 6. B: 20 ms, and nobody is idle.
  CHECK_THAT(text, ContainsSubstring(" 6.000  0.000          23.1  0.0  "));
}
