#include "sim/run/metrics.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("busy, communication and idle time add up to the step") {
  const RunMetrics metrics = compute_metrics(drawn_run(
      2, {{0, "aabb....BBBAAAo."}, {0, "..>>>..........."}, {1, "...aabbBBBAAA.o."}, {1, "..........<<.<.."}}));
  CHECK(metrics.step_ns == 16 * kMs);

  const GpuMetrics& first = metrics.gpus[0];
  CHECK(first.busy_ns == 11 * kMs);
  CHECK(first.comm_ns == 1 * kMs);  // the transfer's last millisecond: two others are hidden behind b
  CHECK(first.idle_ns == 4 * kMs);
  CHECK(first.idle_before_ns == 0);
  CHECK(first.idle_between_ns == 3 * kMs);
  CHECK(first.idle_after_ns == 1 * kMs);
  CHECK(first.useful_ns == 10 * kMs);  // not the optimizer
  CHECK(first.bubble_fraction == 1 - 10.0 / 16);
  CHECK(first.ops == std::vector<std::string>{"F0", "F1", "B1", "B0"});

  const GpuMetrics& second = metrics.gpus[1];
  CHECK(second.busy_ns == 11 * kMs);
  CHECK(second.comm_ns == 1 * kMs);
  CHECK(second.idle_ns == 4 * kMs);
  CHECK(second.idle_fraction == 0.25);
  CHECK(lost_fraction(second, false) == 0.25);
  CHECK(lost_fraction(second, true) == second.bubble_fraction);
  CHECK(second.idle_before_ns == 3 * kMs);
  CHECK(second.idle_between_ns == 0);
  CHECK(second.idle_after_ns == 1 * kMs);

  CHECK(metrics.bubble_fraction == 1 - 20.0 / 32);
  CHECK(metrics.transfer_count == 3);
  CHECK(metrics.transfer_bytes == 96);
  CHECK(metrics.parameters == 2 * (4 * 4 + 4));
  CHECK(metrics.throughput_samples_per_s == 4 / 0.016);
}

TEST_CASE("a copy on the compute stream is communication, not computation") {
  RunResult run = drawn_run(1, {{0, "aa>>AAAA"}});
  for (Span& span : run.timeline.spans) span.stream = StreamRole::compute;
  const GpuMetrics gpu = compute_metrics(run).gpus[0];
  CHECK(gpu.busy_ns == 6 * kMs);
  CHECK(gpu.comm_ns == 2 * kMs);
  CHECK(gpu.useful_ns == 6 * kMs);
  CHECK(gpu.ops == std::vector<std::string>{"F0", "B0"});
}

TEST_CASE("waiting for the other end of a transfer is idle time") {
  const RunResult run = drawn_run(2, {{0, "aaaa>>......AA"}, {0, "......((((((.."}, {1, "))))))aaAA<<.."}});
  const RunMetrics metrics = compute_metrics(run);
  CHECK(metrics.gpus[0].comm_ns == 4 * kMs);  // the send, and the receive once the gradient is sent
  CHECK(metrics.gpus[0].idle_ns == 4 * kMs);
  CHECK(metrics.gpus[1].comm_ns == 4 * kMs);
  CHECK(metrics.gpus[1].idle_before_ns == 4 * kMs);
  CHECK(metrics.gpus[1].idle_after_ns == 2 * kMs);
  CHECK(without_waiting(run.timeline)[4].start_ns == 4 * kMs);
  CHECK(run.timeline.spans[4].start_ns == 0);
}

TEST_CASE("a send waits for its receive as well") {
  const RunMetrics metrics = compute_metrics(drawn_run(2, {{0, "aa>>>>>......A"}, {1, "...a.))aAA....."}}));
  CHECK(metrics.gpus[0].comm_ns == 2 * kMs);
  CHECK(metrics.gpus[1].comm_ns == 2 * kMs);
}

TEST_CASE("overlapping transfers count once") {
  const GpuMetrics gpu =
      compute_metrics(drawn_run(1, {{0, "aa........AA"}, {0, "...>>>>....."}, {0, ".....<<<...."}})).gpus[0];
  CHECK(gpu.busy_ns == 4 * kMs);
  CHECK(gpu.comm_ns == 5 * kMs);
  CHECK(gpu.idle_ns == 3 * kMs);
}

TEST_CASE("a GPU without any task is idle for the whole step") {
  const GpuMetrics gpu = compute_metrics(drawn_run(2, {{0, "aaAA"}})).gpus[1];
  CHECK(gpu.idle_ns == 4 * kMs);
  CHECK(gpu.idle_before_ns + gpu.idle_between_ns + gpu.idle_after_ns == 4 * kMs);
  CHECK(gpu.bubble_fraction == 1);
}

TEST_CASE("operations carry their stage where a GPU holds several, and are in order of execution") {
  RunResult run = drawn_run(2, {{0, "aabb..AABB"}, {1, "..aabb...."}});
  run.stages[1].workers = {0};
  run.timeline.spans[1].stage = 1;
  std::swap(run.timeline.spans[0], run.timeline.spans[3]);
  const RunMetrics metrics = compute_metrics(run);
  CHECK(metrics.gpus[0].ops == std::vector<std::string>{"0F0", "1F1", "0B0", "0B1"});
  CHECK(metrics.gpus[0].layers == 2);
  CHECK(metrics.gpus[1].layers == 0);
}

TEST_CASE("a step of nothing has no metrics") {
  RunResult run = drawn_run(1, {{0, "aA"}});
  run.timeline.spans.clear();
  CHECK_THROWS_AS(compute_metrics(run), std::logic_error);
}

TEST_CASE("the sums hold for every schedule and cost") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
    for (const std::string costs : {"--tf 1 --tb 2 --tcomm 0", "--tf 0.37 --tb 0.91 --tcomm 0.123"}) {
      const Simulated s = simulate("--gpus 3 --depth 7 --microbatches 5 --schedule " + schedule + " " + costs);
      RunResult run = begin_result(s.plan);
      run.timeline = s.timeline;
      run.step_time.median_ms = 1;
      const RunMetrics metrics = compute_metrics(run);
      std::int64_t layers = 0;
      for (const GpuMetrics& gpu : metrics.gpus) {
        CHECK(gpu.busy_ns + gpu.comm_ns + gpu.idle_ns == s.timeline.step_ns);
        CHECK(gpu.idle_before_ns + gpu.idle_between_ns + gpu.idle_after_ns == gpu.idle_ns);
        CHECK(gpu.ops.size() == 10);
        layers += gpu.layers;
      }
      CHECK(layers == 7);
      CHECK(metrics.transfer_count == 2 * 2 * 5);
    }
  }
}

// Parameters in products: 2,048 of each block and 800 of the head. Each takes 2 FLOPs a token forward and 4 backward;
// attention, of what is not masked, 2 x 4 x 4 x 16 forward and twice that backward.
TEST_CASE("FLOPs, MFU and tokens of a transformer, by hand") {
  RunResult run = drawn_run(2, {{0, "aabb....BBBAAAo."}, {1, "...aabbBBBAAA.o."}});
  run.spec.model = tiny_transformer("--gpus 1 --strategy single", 2).model;
  run.spec.batch = 4;
  run.spec.accum = 3;
  const double flops_of_sample = (2 * 2048 + 800) * 4 * 6 + 2 * (2 * 4 * 4 * 16) * 3;
  RunMetrics metrics = compute_metrics(run);
  CHECK(metrics.model_flops == 12 * flops_of_sample);
  CHECK(metrics.tokens_per_s.value() == Approx(12 * 4 / 0.016));
  CHECK_FALSE(metrics.mfu.has_value());  // no card
  run.measured = true;
  run.environment = {{"card", "NVIDIA H200"}};
  run.spec.dtype = Dtype::amp_bf16;
  metrics = compute_metrics(run);
  CHECK(metrics.peak_flops_per_s == 989.4e12);
  CHECK(metrics.mfu.value() == Approx(12 * flops_of_sample / (0.016 * 2 * 989.4e12)));
  run.environment = {{"card", "Tiny GPU"}};
  CHECK_FALSE(compute_metrics(run).mfu.has_value());
  run.measured = false;
  run.environment = {{"profile", {{"card", "NVIDIA H200"}}}};
  CHECK(compute_metrics(run).mfu == metrics.mfu);
  run.environment = {{"profile", {{"card", 3}}}};
  CHECK_FALSE(compute_metrics(run).mfu.has_value());
}

TEST_CASE("FLOPs of an mlp: the first layer has no input gradient, and there are no tokens") {
  const RunMetrics metrics = compute_metrics(drawn_run(2, {{0, "aaAA"}, {1, ".aA."}}));
  CHECK(metrics.model_flops == 2 * (2 * 4 * 4) * (2 + 3));
  CHECK_FALSE(metrics.tokens_per_s.has_value());
}
