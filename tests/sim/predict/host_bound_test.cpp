// Which runs the host bounds: from the prediction alone, whatever sleeps there are; and that validation keeps them
// apart.
#include "sim/predict/host_bound.hpp"

#include "sim/predict/predict.hpp"
#include "sim/report/validation_document.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/validate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// 256 rows through one layer of 64, alone: forward 256 us, backward 256, loss 10, optimizer and zero_grad 25: 547 us.
const std::string kSmall = "--dim 64 --depth 1 --batch 256 --microbatches 1";

CostProfile with_overhead(double step_overhead_ns) {
  CostProfile profile = tiny_profile();
  for (HostTime& host : profile.host) {
    if (host.key.name == "step_overhead") host.time_ns = host.p25_ns = step_overhead_ns;
  }
  return profile;
}

SlowHost slow(const std::string& flags, const CostProfile& profile) {
  const Plan plan = make_plan(spec(flags));
  return slow_host(plan, price_by_profile(plan, profile, HostSpeed::slow));
}

double share(const std::string& flags, const CostProfile& profile) {
  return slow(flags, profile).share;
}

/// Every point of every curve is issued in `issue_ns`.
CostProfile with_issue(double issue_ns) {
  CostProfile profile = tiny_profile();
  for (MeasuredCurve& measured : profile.curves) {
    for (CurvePoint& point : measured.curve.points) point.issue_ns = issue_ns;
  }
  return profile;
}

std::string write_measured(const TemporaryFolder& folder, const CostProfile& profile, const std::string& flags,
                           double factor) {
  RunResult run = predict(spec(flags), &profile);
  run.measured = true;
  const double median = run.step_time.median_ms * factor;
  run.step_time = {median, median * 0.9, median * 1.1, 30};
  run.environment = {{"card", "Tiny GPU"}};
  const std::string path = folder.write("tiny/runs/" + run_name(run.spec) + ".json", "");
  write_run(run, path);
  return path;
}

}  // namespace

TEST_CASE("The host's share is what the step is shorter without it") {
  CHECK(share(kSmall, with_overhead(7'000)) == Approx(7.0 / 554).epsilon(1e-5));
  CHECK(share(kSmall, with_overhead(200'000)) == Approx(200.0 / 747).epsilon(1e-5));
  CHECK(share(kSmall, with_issue(0)) == Approx(7.0 / 554).epsilon(1e-5));
  CHECK(share(kSmall, with_issue(1e6)) > 0.8);  // a millisecond each to issue work of some microseconds
}

TEST_CASE("the step with a slow host has its 95th percentile, and its sleeps") {
  CostProfile profile = tiny_profile();
  for (HostTime& host : profile.host) {
    if (host.key.name == "step_overhead") host.time_ns = HostSpread(7'000, 7'000, 7'000, 107'000);
  }
  const CostProfile always_slow = with_overhead(107'000);
  CHECK(slow(kSmall, profile).step_ns == Approx(547e3 + 107e3).epsilon(1e-5));
  for (const char* sleeps : {"", " --delay-ms 10", " --straggler 0:10"}) {
    INFO(sleeps);
    const RunSpec small = spec(kSmall + sleeps);
    CHECK(predict(small, &profile).step_time.median_ms < predict(small, &always_slow).step_time.median_ms - 0.09);
    CHECK(slow(kSmall + sleeps, profile).step_ns ==
          Approx(1e6 * predict(small, &always_slow).step_time.median_ms).epsilon(1e-5));
  }
}

TEST_CASE("A processor that computes itself is not what holds it up") {
  CostProfile profile = with_overhead(200'000);
  profile.host_description.device = "cpu";
  CHECK(predict(spec(kSmall), &profile).host_share == 0.0);
}

TEST_CASE("a step that the host bounds is bound by it with a sleep in it, too") {
  // 547 us of GPU and 200 us of host; 10 ms of sleep would make 2 % of 27 %.
  for (const char* sleeps : {"", " --delay-ms 10", " --straggler 0:10", " --delay-ms 10 --straggler 0:10 --accum 1"}) {
    INFO(sleeps);
    CHECK(share(kSmall + sleeps, with_overhead(200'000)) == Approx(200.0 / 747).epsilon(1e-5));
    CHECK(share(kSmall + sleeps, with_overhead(200'000)) > kHostBoundShare);
  }
}

TEST_CASE("the share of a plan with sleeps is that of the plan without them, to the bit") {
  CostProfile profile = with_issue(300'000);
  for (const char* flags :
       {"--gpus 2 --microbatches 4 --schedule 1f1b", "--gpus 2 --microbatches 4 --schedule gpipe --accum 3",
        "--gpus 4 --microbatches 4 --chunks 2 --schedule interleaved", "--strategy mp --gpus 2 --microbatches 1"}) {
    INFO(flags);
    const std::string all = std::string(flags) + " --dim 64 --depth 8 --batch 256";
    const double plain = share(all, profile);
    CHECK(plain > 0.01);
    CHECK(share(all + " --delay-ms 3", profile) == plain);
    if (all.find("mp") == std::string::npos) CHECK(share(all + " --straggler 1:20 --delay-ms 3", profile) == plain);
  }
}

TEST_CASE("Sleeps are not the host's issue: they stay") {
  const Plan plan =
      make_plan(spec("--strategy ddp --gpus 2 --depth 4 --dim 8192 --batch 64 --tf 4 --tb 8 --tcomm 8 --delay-ms 10 "
                     "--straggler 0:20"));
  const PricedWork priced = without_host(plan, {price_synthetic(plan, *plan.spec.synthetic), {}, 5'000, {}});
  const std::vector<TaskTimes> times = run_graph(plan.graph, priced.costs);
  std::int64_t last_ns = 0;
  for (const TaskTimes& task : times) last_ns = std::max(last_ns, task.end_ns);
  CHECK(static_cast<double>(last_ns) == Approx(20e6 + 10e6 + 8e6 + 2e6).epsilon(1e-3));  // the delay hides the forward
  CHECK(priced.step_overhead_ns == 0);
}

TEST_CASE("Validation: host-bound runs have a table and a summary of their own") {
  const TemporaryFolder folder;
  const CostProfile profile = with_overhead(200'000);
  save_profile(profile, folder.write("tiny/profile.json", ""));
  const std::string small = write_measured(folder, profile, kSmall, 0.5);
  const std::string large =
      write_measured(folder, profile, "--dim 64 --depth 16 --batch 256 --microbatches 1", 1 / 1.02);
  const std::string larger =
      write_measured(folder, profile, "--dim 64 --depth 32 --batch 256 --microbatches 1", 1 / 0.99);
  const Validation validation = validate_runs({small, larger, large}, std::nullopt);
  REQUIRE(validation.runs.size() == 3);
  CHECK(validation.runs[0].path == large);
  CHECK(validation.runs[1].path == larger);
  CHECK(validation.runs[2].path == small);
  CHECK(validation.runs[2].host_bound());
  CHECK(validation.step_time(false).runs == 2);
  CHECK(validation.step_time(false).max == Approx(2));
  CHECK(validation.step_time(false).mean == Approx(1.5));
  CHECK(validation.step_time(true).max == Approx(100));
  CHECK(validation.step_time().runs == 3);
  const Document document = validation_document(validation);
  const std::string text = to_terminal(document, {.width = 200});
  CHECK(text.find("Host-bound runs") > text.find("mlp32x64"));
  CHECK(text.find("Host-bound runs") < text.find("mlp1x64"));
  CHECK_THAT(text, ContainsSubstring("memory error (%)  host share (%)  spread (%)"));
  CHECK_THAT(text, ContainsSubstring("+100.00   2.42  no      yes                 0.00              27        20.0"));
  CHECK_THAT(text, ContainsSubstring("all GPU-bound runs   step time"));
  CHECK_THAT(to_markdown(document),
             ContainsSubstring("| all host-bound runs | step time | 1 | 100.00 | 100.00 | 100.00 |"));
  const auto* chart = std::get_if<ChartFigure>(&document.blocks[3]);
  REQUIRE(chart);
  REQUIRE(chart->series.size() == 2);  // one strategy, and what is host-bound
  CHECK(chart->series[0].name == "host-bound");
  CHECK(chart->series[0].y == std::vector<double>{validation.runs[2].error_percent});
  CHECK(chart->series[1].x.size() == 2);
  const nlohmann::ordered_json json = validation_json(validation);
  CHECK(json["gpu_bound_step_time_error"]["values"] == 2);
  CHECK(json["host_bound_step_time_error"]["values"] == 1);
  CHECK(json["runs"][2]["host_bound"] == true);
  CHECK(json["runs"][2]["host_share"].get<double>() == Approx(200.0 / 747).epsilon(1e-5));
}
