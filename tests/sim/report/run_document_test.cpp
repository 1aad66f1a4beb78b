#include "sim/report/run_document.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include "sim/predict/predict.hpp"
#include "sim/run/describe_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/tiny_profile.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

namespace {

std::string view_of(const RunResult& run, const RunStyle& style = {}, const Explanation* explanation = nullptr) {
  return to_terminal(run_document(std::make_shared<const RunResult>(run), style, explanation),
                     {.width = style.gantt.width});
}

}  // namespace

TEST_CASE("five GPUs with GPipe fit in one screen") {
  RunResult run = predict(spec("--gpus 5 --depth 20 --schedule gpipe --tf 1 --tb 2 --tcomm 0.3"), nullptr);
  run.peak_memory_bytes = {5LL << 30, 4LL << 30, 3LL << 30, 2LL << 30, 1LL << 29};
  const std::string view = view_of(run);
  check_golden("view_gpipe_5_gpus.txt", view);
  CHECK(std::count(view.begin(), view.end(), '\n') <= 31);
}

TEST_CASE("a prediction from a profile says which, and what it had to assume") {
  const CostProfile profile = tiny_profile();
  RunResult run = predict(spec("--gpus 3 --depth 7 --dim 64 --batch 100 --microbatches 3 --schedule 1f1b"), &profile);
  run.peak_memory_bytes = {300'000, 200'000, 100'000};
  check_golden("view_tiny_profile.txt", view_of(run));
}

TEST_CASE("a measured run shows its spread") {
  RunResult run =
      drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}, {1, "..........<<..."}});
  run.measured = true;
  run.step_time = {15.1, 15.05, 15.25, 30};
  run.environment = {{"card", "Tiny GPU"}, {"count", 2}, {"date", "2026-01-02"}};
  run.warnings = {"clocks were not locked"};
  check_golden("view_measured.txt", view_of(run));
}

TEST_CASE("a prediction from a profile that the user did not name says why that one") {
  CostProfile profile = tiny_profile();
  const RunSpec asked = spec("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 2");
  CHECK(view_of(predict(asked, &profile)).find("by default") == std::string::npos);
  profile.chosen_as = "the largest host in data/";
  const RunResult run = predict(asked, &profile);
  CHECK(describe_source(run).starts_with("costs: profile tiny ("));
  CHECK(describe_source(run).ends_with("); by default: the largest host in data/ (choose with --profile)"));
  CHECK_THAT(view_of(run), ContainsSubstring("by default: the largest"));
}

TEST_CASE("a pipeline has a bubble, outside pipelines the idle share is shown, and named so") {
  const std::string times = " --depth 4 --dim 64 --batch 64 --tf 4 --tb 8 --tcomm 8";
  // 26 ms: each computes 12 and communicates 8; rank 1 sleeps 6, in which it is idle, and rank 0 waits for it as long.
  const std::string ddp = view_of(predict(spec("--strategy ddp --gpus 2 --straggler 1:6" + times), nullptr));
  CHECK_THAT(ddp, ContainsSubstring("idle: 23.1 % of the time of all GPUs is neither computation nor communication\n"));
  CHECK(ddp.find("bubble") == std::string::npos);
  const std::string one = view_of(predict(spec("--gpus 1" + times), nullptr));
  CHECK_THAT(one, ContainsSubstring("idle: 0.0 %"));
  CHECK(one.find("bubble") == std::string::npos);
  const std::string pipeline = view_of(predict(spec("--gpus 2 --microbatches 1" + times), nullptr));
  CHECK_THAT(pipeline, ContainsSubstring("bubble"));
  CHECK(pipeline.find("idle: 0") == std::string::npos);
}

TEST_CASE("without the chart the table stays, and a page has the timeline anyway") {
  RunStyle style;
  const RunResult run = drawn_run(1, {{0, "aA"}});
  CHECK_THAT(view_of(run, style), ContainsSubstring("GPU 0 |"));
  style.with_gantt = false;
  const std::string without = view_of(run, style);
  CHECK(without.find("GPU 0 |") == std::string::npos);
  CHECK_THAT(without, ContainsSubstring("busy (ms)"));
  const Document document = run_document(std::make_shared<const RunResult>(run), style);
  CHECK(std::any_of(document.blocks.begin(), document.blocks.end(),
                    [](const Block& block) { return std::holds_alternative<TimelineFigure>(block); }));
}

TEST_CASE("CSV has the table of the GPUs, all of them, numbers in full") {
  RunResult run = drawn_run(2, {{0, "aa..AAAo"}, {1, "..aAA..o"}});
  run.peak_memory_bytes = {1048577, 3};
  const Document document = run_document(std::make_shared<const RunResult>(run), {.gantt = {.most_rows = 1}});
  CHECK(to_csv(document) ==
        "gpu,layers,layer_range,busy_ms,communication_ms,idle_ms,bubble_percent,peak_memory_bytes\n"
        "0,1,0,6,0,2,37.5,1048577\n"
        "1,1,1,4,0,4,62.5,3\n");
  CHECK_THAT(to_terminal(document, {.width = 80}), ContainsSubstring("... 1 rows are not shown (--csv has all) ..."));
}

TEST_CASE("a run on the CPU says that it is host-bound, and what its processes need") {
  RunResult run = drawn_run(2, {{0, "aa..AAAo"}, {1, "..aAA..o"}});
  run.measured = true;
  run.environment = {{"card", "Tiny processor"}, {"count", 8}, {"date", "2026-01-02"}, {"device", "cpu"}};
  run.extra = {{"process_peak_memory_bytes", {3 << 20}}};
  const std::string one = view_of(run);
  CHECK_THAT(one, ContainsSubstring("peak memory: 3.00 MiB resident in the process with all workers, LibTorch itself"));
  CHECK_THAT(one, ContainsSubstring("Steps on the CPU are host-bound"));
  run.extra = {{"process_peak_memory_bytes", {3 << 20, 5 << 20}}};
  const std::string two = view_of(run);
  CHECK_THAT(two,
             ContainsSubstring("peak memory: 5.00 MiB resident in the largest of the 2 processes, LibTorch itself"));
  CHECK_THAT(two, ContainsSubstring("of the process"));
  CHECK(view_of(drawn_run(1, {{0, "aA"}})).find("host-bound") == std::string::npos);
}

TEST_CASE("a prediction with an error bar says how far off it may be, and what would have it probed") {
  RunResult run = predict(spec("--gpus 2 --depth 2 --dim 64 --batch 64 --microbatches 2 --tf 1 --tb 2"), nullptr);
  run.step_time.median_ms = 36.5;
  CHECK_THAT(view_of(run), ContainsSubstring("\nstep time: 36.500 ms, predicted\n") && !ContainsSubstring("probed"));
  run.error_bar = ErrorBar{2, 0, {{"a", 1, 1.7, true}}};
  CHECK_THAT(view_of(run),
             ContainsSubstring("\nstep time: 36.500 ms +- 0.730 ms, predicted (90 % of measured steps lie within)\n") &&
                 !ContainsSubstring("probed"));
  run.error_bar->unprobed_share = 0.006;  // hardly anything would change
  CHECK_THAT(view_of(run), !ContainsSubstring("probed"));
  run.error_bar->unprobed_share = 0.42;
  run.error_bar->carriers = {{"layer a, 7 rows", 0.40, 5, false}, {"layer b", 0.58, 0.5, true}, {"c", 0.02, 8, false}};
  run.probe_command = "pdl-calibrate --from samples.json --dim 64 --samples samples.json --out profile.json";
  const std::string view = view_of(run);
  CHECK_THAT(view, ContainsSubstring("not probed: 42.0 % of the work of the GPU with the most of it: layer a, 7 rows "
                                     "(40.0 % of the"));
  CHECK_THAT(view, ContainsSubstring("c (2.0 % of the work, +- 8.0 %)") && !ContainsSubstring("layer b"));
  CHECK_THAT(view, ContainsSubstring("\n" + run.probe_command + "\n"));
  const auto document = run_document(std::make_shared<const RunResult>(run), {});
  CHECK_THAT(to_markdown(document), ContainsSubstring("36.500 ms +- 0.730 ms") && ContainsSubstring(run.probe_command));
}

TEST_CASE("a transformer says what it gets done, what its time goes into, and names its layers") {
  const RunSpec asked = tiny_transformer("--gpus 2 --batch 8 --microbatches 4 --schedule 1f1b", 2);
  const CostProfile profile = profile_of(asked, 2);
  RunResult run = predict(asked, &profile);
  run.step_time.median_ms = 8;
  const std::string view = view_of(run);
  CHECK_THAT(view, ContainsSubstring("embedding, block 0  ") && ContainsSubstring("block 1, head  "));
  CHECK_THAT(view, ContainsSubstring("\nthroughput: 1000.0 samples/s, 4,000 tokens/s\n"));
  CHECK_THAT(view,
             ContainsSubstring("\nmodel: 965 kFLOP a step, MFU 0.0 % of 66.9 TFLOP/s (fp32, dense) on each GPU\n"));
  CHECK_THAT(view, ContainsSubstring("kind of layer") && ContainsSubstring("scaled_dot_product") &&
                       ContainsSubstring("part of the model") && ContainsSubstring("\nattention ") &&
                       ContainsSubstring("On a GPU transfers take 0.020 ms, hidden"));
  // Rows that are there are explained, others are not.
  CHECK_THAT(view, ContainsSubstring("kind of layer: device time of compute tasks; rest: idle time"));
  run.layer_kinds.push_back({"other", 0.5});
  CHECK_THAT(view_of(run), ContainsSubstring("tasks; other: copies of gradients; rest: idle"));
  run.environment["profile"]["card"] = "Tiny GPU";
  CHECK_THAT(view_of(run), ContainsSubstring("\nmodel: 965 kFLOP a step\n"));
  run.layer_kinds.clear();
  CHECK_THAT(view_of(run), !ContainsSubstring("kind of layer"));
}

TEST_CASE("an mlp has its MFU where the peak is known, and its kinds of layers with --explain") {
  CostProfile profile = tiny_profile();
  const RunSpec asked = spec("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 2");
  CHECK_THAT(view_of(predict(asked, &profile)), !ContainsSubstring("model:") && !ContainsSubstring("kind of layer"));
  profile.host_description.card = "NVIDIA H200";
  const RunResult run = predict(asked, &profile);
  CHECK_THAT(view_of(run), ContainsSubstring(" samples/s\nmodel: ") && ContainsSubstring("MFU "));
  const Explanation explanation = explain(run).value();
  const std::string explained = view_of(run, {}, &explanation);
  CHECK_THAT(explained, ContainsSubstring("kind of layer") && ContainsSubstring("\nlinear_relu ") &&
                            !ContainsSubstring("part of the model"));
}
