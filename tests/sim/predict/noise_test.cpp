#include "sim/predict/noise.hpp"

#include <cmath>
#include <set>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// 256 rows through one layer of 64, alone: forward 256 us, backward 256, loss 10, optimizer and zero_grad 25: 547 us,
/// and 7 us of overhead.
const std::string kSmall = "--dim 64 --depth 1 --batch 256 --microbatches 1";

CostProfile with_slow_overhead(double p95_ns) {
  CostProfile profile = tiny_profile();
  for (HostTime& host : profile.host) {
    if (host.key.name == "step_overhead") host.time_ns = HostSpread(7'000, 7'000, 7'000, p95_ns);
  }
  return profile;
}

StepDistribution drawn(const std::string& flags, const CostProfile& profile, const NoiseOptions& options) {
  const Plan plan = make_plan(spec(flags));
  return draw_steps(plan, price_by_profile(plan, profile), price_by_profile(plan, profile, HostSpeed::slow), options);
}

}  // namespace

TEST_CASE("drawn numbers are normal, and each its own") {
  constexpr int kNumbers = 100'000;
  double sum = 0, squares = 0, with_next = 0, within = 0;
  std::set<double> different;
  for (int i = 0; i < kNumbers; ++i) {
    const double x = standard_normal(7, static_cast<std::uint64_t>(i), 3);
    sum += x;
    squares += x * x;
    with_next += x * standard_normal(7, static_cast<std::uint64_t>(i), 4);
    within += std::abs(x) <= 1.6448536269514722 ? 1 : 0;
    different.insert(x);
  }
  CHECK(std::abs(sum / kNumbers) < 0.01);
  CHECK(squares / kNumbers == Approx(1).epsilon(0.015));
  CHECK(std::abs(with_next / kNumbers) < 0.01);
  CHECK(within / kNumbers == Approx(0.9).epsilon(0.004));
  CHECK(different.size() == kNumbers);
  CHECK(standard_normal(7, 5, 3) == standard_normal(7, 5, 3));
  CHECK(standard_normal(8, 5, 3) != standard_normal(7, 5, 3));
}

TEST_CASE("a draw is the same by any number of threads, and another by another seed") {
  const CostProfile profile = with_slow_overhead(107'000);
  const std::string flags = "--gpus 4 --depth 4 --dim 64 --batch 256 --microbatches 4 --schedule 1f1b";
  const StepDistribution one = drawn(flags, profile, {.draws = 40, .threads = 1});
  CHECK(one == drawn(flags, profile, {.draws = 40, .threads = 5}));
  CHECK(one.p50_ms != drawn(flags + " --seed 4", profile, {.draws = 40}).p50_ms);
  CHECK(one.p10_ms < one.p50_ms);
  CHECK(one.p50_ms < one.p90_ms);
}

TEST_CASE("80 % of the draws lie within .78 of the error bar, which 90 % lie within") {
  const CostProfile profile = tiny_profile();
  const RunResult run = predict(spec(kSmall), &profile, {.noise = NoiseOptions{.draws = 4000}});
  REQUIRE(run.error_bar);
  REQUIRE(run.noise);
  const double half_width = run.error_bar->half_width_percent / 100;
  CHECK(run.noise->p50_ms == Approx(run.step_time.median_ms).epsilon(0.002));
  CHECK(run.noise->p90_ms / run.noise->p50_ms - 1 == Approx(1.2816 / 1.6449 * half_width).epsilon(0.08));
  CHECK(1 - run.noise->p10_ms / run.noise->p50_ms == Approx(1.2816 / 1.6449 * half_width).epsilon(0.08));
}

TEST_CASE(
    "a host that is slow at its 95th percentile makes the slow steps slower, and its mirror the quick ones quicker") {
  const StepDistribution steady = drawn(kSmall, with_slow_overhead(7'000), {.draws = 1000});
  const StepDistribution uneven = drawn(kSmall, with_slow_overhead(700'000), {.draws = 1000});
  CHECK(uneven.p50_ms == Approx(steady.p50_ms).epsilon(0.01));
  // 7 us a hundred times as long at 1.64 deviations: at 1.28, 36 times.
  CHECK(uneven.p90_ms - steady.p50_ms == Approx(0.007 * (std::pow(100, 1.2816 / 1.6449) - 1)).epsilon(0.2));
  CHECK(uneven.p10_ms >= steady.p10_ms - 0.0075);
}

TEST_CASE("of one draw all quantiles are that draw") {
  const StepDistribution one = drawn(kSmall + " --seed 9", tiny_profile(), {.draws = 1});
  CHECK(one.draws == 1);
  CHECK(one.seed == 9);
  CHECK(one.p10_ms == one.p90_ms);
}

TEST_CASE("drawn steps are in the JSON of a run, and read back") {
  const TemporaryFolder folder;
  const CostProfile profile = tiny_profile();
  const RunResult run = predict(spec(kSmall + " --seed 5"), &profile, {.noise = NoiseOptions{.draws = 20}});
  const std::string path = folder.path() + "/run.json";
  write_run(run, path);
  CHECK(read_run(path).noise == run.noise);
}

TEST_CASE("costs that the user gives have no spread to draw from") {
  const RunSpec textbook = spec("--gpus 2 --depth 2 --schedule gpipe --tf 1 --tb 2 --tcomm 0");
  CHECK_THROWS_AS(predict(textbook, nullptr, {.noise = NoiseOptions{}}), InputError);
  CHECK_THROWS_WITH(predict(textbook, nullptr, {.noise = NoiseOptions{}}),
                    ContainsSubstring("--noise: found costs without a spread"));
}
