// Exposed communication is one number, also where GPUs differ in it.
#include "sim/run/communication.hpp"

#include "sim/predict/predict.hpp"
#include "sim/run/intervals.hpp"
#include "sim/run/speedup.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// 3 stages, one micro-batch: GPU 0 sends its activations (1 ms), GPU 1 these and its gradients, GPU 2 its gradients.
const std::string kThree = "--schedule naive --gpus 3 --microbatches 1 --tf 1 --tb 2 --tcomm 1 --dim 8 --batch 8";

}  // namespace

TEST_CASE("time that is in some of many intervals") {
  CHECK(covered_ns({}) == 0);
  CHECK(covered_ns({{0, 4}, {2, 6}, {9, 10}}) == 7);
  CHECK(covered_ns({{9, 10}, {0, 8}, {1, 2}}) == 9);
}

TEST_CASE("speed-up and efficiency") {
  const Speedup gain = speedup_against({12, 2}, {4, 8});
  CHECK(gain.speedup == Approx(3));
  CHECK(gain.efficiency == Approx(0.75));
}

TEST_CASE("exposed communication is the average over the GPUs, in time and as a share") {
  const RunResult run = predict(spec(kThree), nullptr);
  const RunMetrics metrics = compute_metrics(run);
  CHECK(metrics.step_ns == 13'000'000);  // 9 of work, 4 transfers
  CHECK(metrics.gpus[0].comm_ns == 1'000'000);
  CHECK(metrics.gpus[1].comm_ns == 2'000'000);
  CHECK(metrics.gpus[2].comm_ns == 1'000'000);
  const CommunicationTime time = communication_time(run, metrics);
  CHECK(time.exposed_ns == 1'333'333);
  CHECK(time.running_ns == 1'333'333);
  CHECK(time.backward_ns == 2'000'000);
  CHECK(exposed_communication_fraction(metrics) == Approx(4.0 / 3 / 13));
}
