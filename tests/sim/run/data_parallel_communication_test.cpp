// Exposed and hidden communication, and what GPU 0 does alone: drawn, a character a millisecond.
#include "sim/run/communication.hpp"

#include "sim/predict/predict.hpp"
#include "sim/run/gpu_alone.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("Communication beside the backward is hidden", "[data_parallel]") {
  // 4 layers, a bucket each: FFFF BB BB BB BB
  //                               CC CC CC CC
  const RunResult run =
      predict(spec("--strategy ddp --gpus 2 --depth 4 --dim 8192 --batch 64 --tf 4 --tb 8 --tcomm 8"), nullptr);
  const RunMetrics metrics = compute_metrics(run);
  const CommunicationTime time = communication_time(run, metrics);
  constexpr double kRounding = 2e3;  // biases make the shares of the buckets uneven, by 0.01 %
  CHECK(static_cast<double>(time.running_ns) == Approx(8e6).margin(kRounding));
  CHECK(static_cast<double>(time.exposed_ns) == Approx(2e6).margin(kRounding));
  CHECK(static_cast<double>(time.backward_ns) == Approx(8e6).margin(kRounding));
  CHECK(exposed_communication_fraction(metrics) == Approx(2.0 / 14).epsilon(1e-3));
}

TEST_CASE("One GPU communicates with nobody", "[data_parallel]") {
  const RunResult run =
      predict(spec("--strategy ddp --gpus 1 --depth 4 --dim 8192 --batch 64 --tf 4 --tb 8 --tcomm 8"), nullptr);
  CHECK(communication_time(run, compute_metrics(run)).running_ns == 0);
  CHECK(exposed_communication_fraction(compute_metrics(run)) == 0);
}

TEST_CASE("Under DataParallel everyone waits for broadcast and reduce", "[data_parallel]") {
  // broadcast 6, forward 4, backward 8, reduce 6; slices, loss and optimizer take no time with synthetic costs
  const RunResult run =
      predict(spec("--strategy dp --gpus 2 --depth 4 --dim 8192 --batch 64 --tf 4 --tb 8 --tcomm 6"), nullptr);
  CHECK(time_of_kind_ns(run, 0, TaskKind::broadcast) == 6'000'000);
  CHECK(time_of_kind_ns(run, 0, TaskKind::reduce) == 6'000'000);
  CHECK(time_of_kind_ns(run, 0, TaskKind::forward) == 4'000'000);
  CHECK(leading_ns(run, 0) == 12'000'000);
  CHECK(run.step_time.median_ms == 24);
}
