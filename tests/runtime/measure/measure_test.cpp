#include "runtime/measure/measure.hpp"

#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "runtime/measure/span_recorder.hpp"
#include "sim/report/run_json.hpp"
#include "sim/spec/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// A program whose steps take given times.
class DrawnProgram : public StepProgram {
 public:
  DrawnProgram(const Plan& plan, std::vector<int> step_ms) : plan_(plan), step_ms_(std::move(step_ms)) {}

  void step(SpanRecorder* recorder) override {
    for (TaskId t = 0; recorder && t < plan_.graph.tasks.size(); ++t) {
      recorder->begin(t);
      recorder->end(t);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(step_ms_.at(steps_++)));
  }
  double loss() override { return steps_ == bad_step ? std::numeric_limits<double>::quiet_NaN() : 1.0 / steps_; }
  std::vector<torch::Tensor> parameters() override { return {}; }

  std::size_t bad_step = 0;

 private:
  const Plan& plan_;
  std::vector<int> step_ms_;
  std::size_t steps_ = 0;
};

RuntimeOptions options_of(int warmup, int steps, int recorded) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.warmup = warmup;
  options.steps = steps;
  options.recorded_steps = recorded;
  return options;
}

}  // namespace

TEST_CASE("Quartiles", "[runtime][measure]") {
  const Quartiles q = quartiles({4, 1, 3, 2});  // numpy.percentile([1, 2, 3, 4], [25, 50, 75])
  CHECK(q.p25 == Approx(1.75));
  CHECK(q.median == Approx(2.5));
  CHECK(q.p75 == Approx(3.25));
  CHECK(quartiles({7}).p75 == 7);
}

TEST_CASE("Warm-up is dropped; the timeline is that of the middle recorded step", "[runtime][measure]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 2 --batch 8 --gpus 2 --microbatches 2 --schedule 1f1b"));
  DrawnProgram program(plan, {150, 20, 40, 30, 90, 50, 70});
  const RunResult run = measure(plan, options_of(1, 3, 3), program, "pdl-run --gpus 2", nullptr);
  CHECK(run.measured);
  CHECK(run.step_time.n == 3);
  CHECK(run.step_time.median_ms >= 30);
  CHECK(run.step_time.median_ms < 40);  // neither the warm-up step nor the recorded ones
  CHECK(run.timeline.step_ns >= 70'000'000);
  CHECK(run.timeline.step_ns < 90'000'000);
  CHECK(run.timeline.spans.size() == plan.graph.tasks.size());
  CHECK(run.extra["losses"].size() == 7);
  CHECK(run.extra["losses"][1] == 0.5);
  CHECK(run.extra["recording"]["step_time_ms"].get<double>() >= 70);
  CHECK(run.extra["recording"]["overhead_fraction"].get<double>() == Approx(70.0 / 30 - 1).epsilon(0.2));
  CHECK(run.environment["command"] == "pdl-run --gpus 2");
  CHECK(run.peak_memory_bytes.empty());
  CHECK(run_from_json(to_json(run), "run").step_time.median_ms == Approx(run.step_time.median_ms));
}

TEST_CASE("A loss that is no number ends the run", "[runtime][measure]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 2 --batch 8 --gpus 1 --microbatches 2"));
  DrawnProgram program(plan, {0, 0, 0, 0});
  program.bad_step = 3;
  CHECK_THROWS_WITH(measure(plan, options_of(1, 3, 1), program, "", nullptr),
                    ContainsSubstring("loss of step 2 is not a finite number"));
}
