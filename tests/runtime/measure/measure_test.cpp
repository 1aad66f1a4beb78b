#include "runtime/measure/measure.hpp"

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// A program whose steps take given times.
class DrawnProgram : public StepProgram {
 public:
  DrawnProgram(const Plan& plan, std::vector<int> step_ms) : plan_(plan), step_ms_(std::move(step_ms)) {}

  void run_step(SpanRecorder* recorder) override {
    for (TaskId t = 0; recorder && t < plan_.graph.tasks.size(); ++t) {
      recorder->begin(t);
      recorder->end(t);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(step_ms_.at(steps_++)));
  }
  double loss() override { return steps_ == bad_step ? std::numeric_limits<double>::quiet_NaN() : 1.0 / steps_; }
  std::vector<torch::Tensor> parameters() override { return {}; }
  bool skipped() const override { return steps_ <= skips.size() && skips[steps_ - 1] == 's'; }
  std::optional<double> loss_scale() const override { return 512; }

  std::size_t bad_step = 0;
  std::string skips;  // "s" for a step that the scaler skips

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

TEST_CASE("Warm-up is dropped, the timeline is that of the middle recorded step", "[runtime][measure]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 2 --batch 8 --gpus 2 --microbatches 2 --schedule 1f1b"));
  DrawnProgram program(plan, {150, 20, 40, 30, 90, 50, 70});
  const RunResult run = measure_run(plan, options_of(1, 3, 3), program, "pdl-run --gpus 2", nullptr);
  CHECK(run.measured);
  CHECK(run.step_time.n == 3);
  CHECK(run.step_time.median_ms >= 30);
  CHECK(run.step_time.median_ms < 40);  // neither the warm-up step nor the recorded ones
  CHECK(run.timeline.step_ns >= 70'000'000);
  CHECK(run.timeline.step_ns < 90'000'000);
  CHECK(run.timeline.spans.size() == plan.graph.tasks.size());
  REQUIRE(run.steps.size() == 4);  // the warm-up step, then the measured ones; the recorded ones are not among them
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(run.steps[s].warmup == (s == 0));
    CHECK(run.steps[s].loss == 1.0 / static_cast<double>(s + 1));
    CHECK(run.steps[s].step_time_ms >= std::vector<int>{150, 20, 40, 30}[s]);
  }
  CHECK(run.extra["losses"].size() == 7);
  CHECK(run.extra["losses"][1] == 0.5);
  REQUIRE(run.extra["warmup_ms"].size() == 1);
  CHECK(run.extra["warmup_ms"][0].get<double>() >= 150);
  CHECK(run.extra["step_time_stddev_ms"].get<double>() > 5);  // of 20, 40 and 30: 10
  CHECK(run.extra["recording"]["step_time_ms"].get<double>() >= 70);
  CHECK(run.extra["recording"]["overhead_fraction"].get<double>() == Approx(70.0 / 30 - 1).epsilon(0.2));
  CHECK(run.environment["command"] == "pdl-run --gpus 2");
  CHECK(run.peak_memory_bytes.empty());
  const MeasuredFacts facts = measured_facts(run);
  REQUIRE(facts.process_peak_memory_bytes.size() == 1);
  CHECK(facts.process_peak_memory_bytes[0] > 10 << 20);  // LibTorch alone is more
  CHECK(run_from_json(to_json(run), "run").step_time.median_ms == Approx(run.step_time.median_ms));
}

TEST_CASE("A loss that is no number ends the run", "[runtime][measure]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 2 --batch 8 --gpus 1 --microbatches 2"));
  DrawnProgram program(plan, {0, 0, 0, 0});
  program.bad_step = 3;
  CHECK_THROWS_WITH(measure_run(plan, options_of(1, 3, 1), program, "", nullptr),
                    ContainsSubstring("loss of step 2 is not a finite number"));
}

namespace {

/// One warm-up step, then 4 measured and 3 recorded ones.
RunResult measure_skips(const std::string& skips) {
  const Plan plan = make_plan(spec("--dim 8 --depth 2 --batch 8 --strategy single --microbatches 1 --dtype amp-fp16"));
  DrawnProgram program(plan, {0, 10, 60, 20, 60, 30, 90, 50});
  program.skips = skips;
  return measure_run(plan, options_of(1, 4, 3), program, "", nullptr);
}

}  // namespace

TEST_CASE("Skipped steps are counted and are no part of the statistics", "[runtime][data_parallel]") {
  const RunResult run = measure_skips("s.s.s.s.");
  CHECK(run.step_time.n == 2);
  CHECK(run.step_time.median_ms >= 15);  // of 10 and 20: the steps of 60 were skipped
  CHECK(run.step_time.median_ms < 30);
  CHECK(run.timeline.step_ns >= 30'000'000);  // of 30 and 50: that of 90 was skipped
  CHECK(run.timeline.step_ns < 80'000'000);
  CHECK(run.extra["skipped_steps"] == 2);
  CHECK(run.extra["skipped"] == nlohmann::json({0, 2, 4, 6}));
  CHECK(run.extra["losses"].size() == 8);
  CHECK(run.extra["loss_scale"] == 512);
  CHECK(measure_skips("........").extra["skipped_steps"] == 0);
}

TEST_CASE("A run whose steps were all skipped has no step time", "[runtime][data_parallel]") {
  CHECK_THROWS_WITH(measure_skips("sssss..."), ContainsSubstring("all 4 measured steps were skipped"));
  CHECK_THROWS_AS(measure_skips("sssss..."), CannotRun);
  CHECK_THROWS_WITH(measure_skips("ssss.sss"), ContainsSubstring("all 3 recorded steps were skipped"));
}
