#include "sim/report/terminal.hpp"

#include <algorithm>

#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

TEST_CASE("five GPUs with GPipe fit in one screen") {
  RunResult run = predict(spec("--gpus 5 --depth 20 --schedule gpipe --tf 1 --tb 2 --tcomm 0.3"), nullptr);
  run.peak_memory_bytes = {5LL << 30, 4LL << 30, 3LL << 30, 2LL << 30, 1LL << 29};
  const std::string view = terminal_view(run, {});
  check_golden("view_gpipe_5_gpus.txt", view);
  CHECK(std::count(view.begin(), view.end(), '\n') <= 30);
}

TEST_CASE("a prediction from a profile says which, and what it had to assume") {
  const CostProfile profile = tiny_profile();
  RunResult run = predict(spec("--gpus 3 --depth 7 --dim 64 --batch 100 --microbatches 3 --schedule 1f1b"), &profile);
  run.peak_memory_bytes = {300'000, 200'000, 100'000};
  check_golden("view_tiny_profile.txt", terminal_view(run, {}));
}

TEST_CASE("a measured run shows its spread") {
  RunResult run =
      drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}, {1, "..........<<..."}});
  run.measured = true;
  run.step_time = {15.1, 15.05, 15.25, 30};
  run.environment = {{"card", "Tiny GPU"}, {"count", 2}, {"date", "2026-01-02"}};
  run.warnings = {"clocks were not locked"};
  check_golden("view_measured.txt", terminal_view(run, {}));
}

TEST_CASE("a prediction from a profile that the user did not name says why that one") {
  CostProfile profile = tiny_profile();
  const RunSpec asked = spec("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 2");
  CHECK(terminal_view(predict(asked, &profile), {}).find("by default") == std::string::npos);
  profile.chosen_as = "the largest host in data/";
  const RunResult run = predict(asked, &profile);
  CHECK(describe_source(run).starts_with("costs: profile tiny ("));
  CHECK(describe_source(run).ends_with("); by default: the largest host in data/ (choose with --profile)"));
  CHECK_THAT(terminal_view(run, {}), ContainsSubstring("by default: the largest"));
}

TEST_CASE("a pipeline has a bubble, outside pipelines the idle share is shown, and named so") {
  const std::string times = " --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8";
  // 26 ms: each computes 12 and communicates 8; rank 1 sleeps 6, in which it is idle, and rank 0 waits for it as long.
  const std::string ddp = terminal_view(predict(spec("--strategy ddp --gpus 2 --straggler 1:6" + times), nullptr), {});
  CHECK_THAT(
      ddp, ContainsSubstring("idle         23.1 % of the time of all GPUs is neither computation nor communication\n"));
  CHECK(ddp.find("bubble") == std::string::npos);
  const std::string one = terminal_view(predict(spec("--gpus 1" + times), nullptr), {});
  CHECK_THAT(one, ContainsSubstring("idle         0.0 %"));
  CHECK(one.find("bubble") == std::string::npos);
  const std::string pipeline = terminal_view(predict(spec("--gpus 2 --microbatches 1" + times), nullptr), {});
  CHECK_THAT(pipeline, ContainsSubstring("bubble"));
  CHECK(pipeline.find("idle         ") == std::string::npos);
}

TEST_CASE("layers of GPUs") {
  RunResult run = drawn_run(2, {{0, "aA"}, {1, "aA"}});
  run.stages = {{{0}, 0, 3, 1, 1}, {{1}, 3, 2, 1, 1}, {{0}, 5, 1, 1, 1}};
  CHECK(layers_of_gpus(run) == std::vector<std::string>{"4 (0-2, 5)", "2 (3-4)"});
}

TEST_CASE("without the chart the table stays") {
  ViewStyle style;
  const RunResult run = drawn_run(1, {{0, "aA"}});
  const std::string with = terminal_view(run, style);
  style.with_gantt = false;
  const std::string without = terminal_view(run, style);
  CHECK(with.starts_with(without));
  CHECK(without.find("GPU 0 |") == std::string::npos);
}
