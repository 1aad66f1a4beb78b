#include "sim/cost/curve.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

Curve curve_of(std::vector<std::pair<std::int64_t, double>> points) {
  Curve curve;
  for (const auto& [size, time_ns] : points) {
    CurvePoint point;
    point.size = size;
    point.time_ns = time_ns;
    curve.points.push_back(point);
  }
  return curve;
}

/// 10 us, then 100 GB/s: 1 KiB to 1 GiB, as nccl-tests would print it.
Curve link() {
  std::vector<std::pair<std::int64_t, double>> points;
  for (std::int64_t bytes = KiB; bytes <= GiB; bytes *= 2)
    points.emplace_back(bytes, 10e3 + static_cast<double>(bytes) / 100);
  return curve_of(points);
}

TEST_CASE("measured sizes are read as they are, and between them log(time) is straight in log(size)", "[curve]") {
  const Curve curve = curve_of({{100, 10}, {400, 40}, {1600, 40}});
  CHECK(read_curve(curve, 100).time_ns == 10);
  CHECK(read_curve(curve, 400).time_ns == 40);
  CHECK(read_curve(curve, 200).time_ns == Approx(20));  // proportional
  CHECK(read_curve(curve, 800).time_ns == Approx(40));  // flat
  CHECK_FALSE(read_curve(curve, 200).extrapolated());
  CHECK(interpolate_log_log(3, 1, 2, 9, 18) == Approx(6));
}

TEST_CASE("below the range: the smallest latency, marked, nothing takes no time", "[curve]") {
  const Curve curve = curve_of({{1 * MiB, 30}, {2 * MiB, 28}, {4 * MiB, 60}});
  CHECK(read_curve(curve, 0).time_ns == 0);
  CHECK_FALSE(read_curve(curve, 0).extrapolated());
  for (const std::int64_t bytes : {std::int64_t{1}, 64 * KiB, MiB - 1}) {
    CHECK(read_curve(curve, bytes).time_ns == 28);
    CHECK(read_curve(curve, bytes).range == CurveRange::below);
  }
}

TEST_CASE("above the range: the last slope, marked", "[curve]") {
  const Curve curve = curve_of({{100, 10}, {200, 20}, {400, 60}});  // last slope .2 a unit
  CHECK(read_curve(curve, 800).time_ns == Approx(60 + 400 * 0.2));
  CHECK(read_curve(curve, 401).range == CurveRange::above);
}

TEST_CASE("the last slope is not that of two close, noisy points", "[curve]") {
  const Curve curve = curve_of({{1000, 100}, {1990, 199}, {2000, 210}});
  CHECK(read_curve(curve, 4000).time_ns == Approx(210 + 2000 * 0.11));
}

TEST_CASE("a flat or a single last point still grows beyond", "[curve]") {
  CHECK(read_curve(curve_of({{100, 10}}), 1000).time_ns == Approx(100));
  CHECK(read_curve(curve_of({{100, 10}, {200, 10}}), 400).time_ns > 10);
  CHECK(read_curve(curve_of({{50, 5}, {100, 10}, {200, 10}}), 400).time_ns == Approx(10 + 200 * 5.0 / 150));
}

TEST_CASE("big messages: positive, increasing, no overflow, proportional where bandwidth rules", "[curve]") {
  const Curve curve = link();
  double last = 0;
  for (const std::int64_t bytes :
       {(1LL << 31) - 1, 1LL << 31, (1LL << 32) + 1, 6467616768LL, 12935233536LL, 1LL << 40, 1LL << 62}) {
    const CurveReading reading = read_curve(curve, bytes);
    CHECK(reading.time_ns > last);
    CHECK(reading.time_ns == Approx(10e3 + static_cast<double>(bytes) / 100));
    CHECK(reading.extrapolated());
    last = reading.time_ns;
  }
  CHECK(read_curve(curve, 12935233536LL).time_ns / read_curve(curve, 6467616768LL).time_ns == Approx(2).epsilon(0.001));
}

TEST_CASE("a curve that does not decrease is read without decrease, within and beyond", "[curve]") {
  const Curve curve = curve_of({{10, 5}, {20, 5}, {30, 5.5}, {1000, 70}, {1100, 70}});
  double last = 0;
  for (std::int64_t size = 0; size < 5000; ++size) {
    const double time = read_curve(curve, size).time_ns;
    CHECK(time >= last);
    if (size > 0) CHECK(time > 0);
    last = time;
  }
}

TEST_CASE("issue time: between points as they are, beyond them the nearest, else none", "[curve]") {
  Curve curve = curve_of({{100, 1}, {400, 1}});
  CHECK(read_issue_ns(curve, 200) == 0);
  curve.points[0].issue_ns = 4;
  curve.points[1].issue_ns = 16;
  CHECK(read_issue_ns(curve, 1) == 4);
  CHECK(read_issue_ns(curve, 200) == Approx(8));
  CHECK(read_issue_ns(curve, 400) == 16);
  CHECK(read_issue_ns(curve, 9000) == 16);
}

TEST_CASE("host times: the slowest of n processes is the quantile .5^(1/n), straight between those known", "[curve]") {
  CHECK(quantile_of_slowest(1) == .5);
  CHECK(quantile_of_slowest(2) == Approx(.7071).margin(1e-4));
  CHECK(quantile_of_slowest(4) == Approx(.8409).margin(1e-4));
  const HostSpread spread(100, 200, 260, 300);
  CHECK(spread.at(.5) == 100);
  CHECK(spread.at(.6) == Approx(140));
  CHECK(spread.at(.75) == Approx(200));
  CHECK(spread.at(.8) == Approx(220));
  CHECK(spread.at(.9) == Approx(260));
  CHECK(spread.at(.93) == Approx(284));
  CHECK(spread.at(kSlowHost) == Approx(300));
  CHECK(spread.at(quantile_of_slowest(1024)) == 300);
  CHECK(spread.at(.1) == 100);
  Curve curve = curve_of({{100, 1}, {400, 1}});
  curve.points[0].issue_ns = spread;
  curve.points[1].issue_ns = HostSpread(400, 800, 1040, 1200);
  CHECK(read_issue_ns(curve, 200, .75) == Approx(400));
}

TEST_CASE("nearest in ratio, not in difference", "[curve]") {
  const Curve curve = curve_of({{100, 1}, {1000, 2}});
  CHECK(nearest_point(curve, 1).size == 100);
  CHECK(nearest_point(curve, 310).size == 100);
  CHECK(nearest_point(curve, 320).size == 1000);
  CHECK(nearest_point(curve, 4000).size == 1000);
}

TEST_CASE("the same time in any unit is the same number", "[curve]") {
  for (int i = 1; i < 100000; i += 7) {
    const double ns = i * 1.37;
    CHECK(to_picoseconds(ns / 1e3 * 1e3) == to_picoseconds(ns));
    CHECK(to_picoseconds(ns / 1e6 * 1e6) == to_picoseconds(ns));
    CHECK(to_picoseconds(ns / 1e9 * 1e9) == to_picoseconds(ns));
  }
}

TEST_CASE("reading nothing, or a negative size, is a bug", "[curve]") {
  CHECK_THROWS_AS(read_curve(Curve{}, 1), std::invalid_argument);
  CHECK_THROWS_AS(read_curve(curve_of({{1, 1}}), -1), std::invalid_argument);
}

}  // namespace
}  // namespace pdl
