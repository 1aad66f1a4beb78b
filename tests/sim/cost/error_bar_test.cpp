#include "sim/cost/error_bar.hpp"

#include <cmath>

#include "sim/cost/price.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_graph.hpp"

using namespace pdl;

namespace {

/// GPU 0: work 0 (10 ms) six times, work 1 (40 ms) once: 100 ms. GPU 1: work 2 (90 ms) once.
TaskGraph graph() {
  return small_graph(3, 2, {{2, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 0}});
}

std::vector<TaskCost> costs() {
  return {device_only(10'000'000), device_only(40'000'000), device_only(90'000'000)};
}

constexpr double kFloorPercent = 100 * kStepFloor;

}  // namespace

TEST_CASE("times of one source are wrong together, sources are independent of each other") {
  // 60 of 100 ms with 1 %, 40 with 5 %: parts of 0.6 % and 2 % of the step.
  const auto bar = error_bar({{"a", 0.01, true, {{0, 10e6}}}, {"b", 0.05, false, {{1, 40e6}}}}, graph(), costs());
  REQUIRE(bar);
  CHECK(bar->half_width_percent == Approx(std::sqrt(0.6 * 0.6 + 2.0 * 2.0 + kFloorPercent * kFloorPercent)));
  CHECK(bar->unprobed_share == Approx(0.40));
  CHECK_FALSE(bar->probed());
  REQUIRE(bar->carriers.size() == 2);
  CHECK(bar->carriers[0].what == "b");  // 0.4 x 5 % is more of the bar than 0.6 x 1 %
  CHECK(bar->carriers[0].share == Approx(0.40));
  CHECK(bar->carriers[0].half_width_percent == Approx(5));
  CHECK_FALSE(bar->carriers[0].probed);
  CHECK(bar->carriers[1].what == "a");
  CHECK(bar->carriers[1].share == Approx(0.60));
  CHECK(bar->carriers[1].probed);
}

TEST_CASE("one source of two works is wrong in both at once") {
  const auto bar = error_bar({{"a", 0.03, true, {{0, 10e6}, {1, 40e6}}}}, graph(), costs());
  CHECK(bar->half_width_percent == Approx(std::sqrt(9 + kFloorPercent * kFloorPercent)));
  CHECK(bar->carriers[0].share == Approx(1));
  CHECK(bar->probed());
}

TEST_CASE("the GPU with the most work decides: a source of the other one is no part of its bar") {
  const auto bar = error_bar({{"of GPU 1", 0.5, false, {{2, 90e6}}}}, graph(), costs());
  CHECK(bar->half_width_percent == Approx(kFloorPercent));
  CHECK(bar->carriers.empty());
  CHECK(bar->probed());
}

TEST_CASE("a source may be a part of a piece of work: half of the kernels of each") {
  const auto bar = error_bar({{"products", 0.02, true, {{0, 5e6}}}}, graph(), costs());
  CHECK(bar->carriers[0].share == Approx(0.30));
  CHECK(bar->half_width_percent == Approx(std::hypot(0.6, kFloorPercent)));
}

TEST_CASE("time of the host is work that rests on no source") {
  std::vector<TaskCost> slow = costs();
  slow[0].span_ns = 60'000'000;  // 6 x 60 + 40 = 400 ms, of which the kernels are 60 + 40
  const auto bar = error_bar({{"a", 0.04, false, {{0, 10e6}, {1, 40e6}}}}, graph(), slow);
  CHECK(bar->unprobed_share == Approx(0.25));
  CHECK(bar->half_width_percent == Approx(std::hypot(1.0, kFloorPercent)));
}

TEST_CASE("what a slow host adds is one more source, of the whole step") {
  const auto bar = error_bar({{"a", 0.01, true, {{0, 10e6}}}}, graph(), costs(), 0.30);
  CHECK(bar->half_width_percent == Approx(std::sqrt(0.36 + 900 + kFloorPercent * kFloorPercent)));
  CHECK(bar->carriers[0].what == "a slow host instead of the usual one");
  CHECK(bar->carriers[0].share == 1);
  CHECK(bar->carriers[0].half_width_percent == Approx(30));
  CHECK(bar->probed());
}

TEST_CASE("up to half a per cent that no probe measured is called probed") {
  const auto with = [](double ns) { return *error_bar({{"a", 0.1, false, {{1, ns}}}}, graph(), costs()); };
  CHECK(with(0.49e6).probed());
  CHECK_FALSE(with(0.51e6).probed());
}

TEST_CASE("of many sources the five that carry most are named, all count") {
  std::vector<PriceError> errors;
  for (int i = 1; i <= 7; ++i) errors.push_back({"source " + std::to_string(i), 0.01 * i, true, {{1, 10e6}}});
  const auto bar = error_bar(errors, graph(), costs());
  REQUIRE(bar->carriers.size() == 5);
  CHECK(bar->carriers.front().what == "source 7");
  CHECK(bar->carriers.back().what == "source 3");
  const double squares = 0.01 * (1 + 4 + 9 + 16 + 25 + 36 + 49);  // parts of 0.1, 0.2, ... 0.7 %
  CHECK(bar->half_width_percent == Approx(std::sqrt(squares + kFloorPercent * kFloorPercent)));
}

TEST_CASE("where no error is known, or nothing takes time, there is no bar") {
  CHECK_FALSE(error_bar({}, graph(), costs()));
  CHECK_FALSE(error_bar({}, graph(), costs(), 0.3));
  CHECK_FALSE(error_bar({{"a", 0.1, true, {{0, 1e6}}}}, graph(), std::vector<TaskCost>(3)));
}
