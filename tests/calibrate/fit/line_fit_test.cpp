#include "calibrate/fit/line_fit.hpp"

#include <cmath>
#include <random>

#include "sim/io/statistics.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

CurvePoint point(std::int64_t size, double time_ns) {
  CurvePoint point;
  point.size = size;
  point.time_ns = time_ns;
  return point;
}

/// latency + bytes / rate, 1 KiB to 1 GiB.
std::vector<CurvePoint> line(double latency_ns, double bytes_per_s) {
  std::vector<CurvePoint> points;
  for (int k = 10; k <= 30; ++k) {
    points.push_back(point(1LL << k, latency_ns + 1e9 * static_cast<double>(1LL << k) / bytes_per_s));
  }
  return points;
}

TEST_CASE("a straight line is found exactly", "[line_fit]") {
  for (const auto& [latency_ns, rate] : {std::pair{10e3, 50e9}, {500.0, 450e9}, {2e6, 1e8}, {0.0, 1e9}}) {
    const auto fitted = fit_line(line(latency_ns, rate));
    REQUIRE(fitted.has_value());
    CHECK(fitted->latency_ns == Approx(latency_ns).margin(1));
    CHECK(fitted->size_per_s == Approx(rate).epsilon(1e-6));
    CHECK(fitted->max_residual == Approx(0).margin(1e-5));
  }
}

TEST_CASE("noise and outliers: the parameters are recovered", "[line_fit]") {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 0.02);
  std::uniform_int_distribution<std::size_t> where(0, 20);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<CurvePoint> points = line(10e3, 50e9);
    for (CurvePoint& each : points) each.time_ns *= 1 + noise(random);
    for (const double factor : {30.0, 4.0, 0.2}) points[where(random)].time_ns *= factor;
    const auto fitted = fit_line(points);
    REQUIRE(fitted.has_value());
    CHECK(fitted->latency_ns == Approx(10e3).epsilon(0.08));
    CHECK(fitted->size_per_s == Approx(50e9).epsilon(0.04));
    CHECK(fitted->median_residual < 0.04);
    CHECK(fitted->max_residual > 0.5);
  }
}

TEST_CASE("the latency is never negative", "[line_fit]") {
  std::vector<CurvePoint> points;
  for (int k = 10; k <= 20; ++k) points.push_back(point(1LL << k, std::pow(static_cast<double>(1LL << k), 1.2)));
  const auto fitted = fit_line(points);
  REQUIRE(fitted.has_value());
  CHECK(fitted->latency_ns == 0);
  CHECK(fitted->size_per_s > 0);
}

TEST_CASE("no line through two points, nor through times that do not grow", "[line_fit]") {
  CHECK_FALSE(fit_line(std::vector<CurvePoint>{point(1, 1), point(2, 2)}).has_value());
  CHECK_FALSE(fit_line(std::vector<CurvePoint>{point(1, 5), point(2, 5), point(3, 5), point(4, 5)}).has_value());
  CHECK_FALSE(fit_line(std::vector<CurvePoint>{point(1, 9), point(2, 8), point(3, 7), point(4, 6)}).has_value());
}

TEST_CASE("huge sizes and tiny times: no overflow", "[line_fit]") {
  std::vector<CurvePoint> points;
  for (int k = 30; k <= 60; k += 2) points.push_back(point(1LL << k, 0.001 + std::ldexp(1, k) * 1e-6));
  const auto fitted = fit_line(points);
  REQUIRE(fitted.has_value());
  CHECK(fitted->size_per_s == Approx(1e15).epsilon(1e-6));
}

/// 4 cards behind PCIe: one line fits all rows within 5 %.
TEST_CASE("C05: where a line fits", "[line_fit]") {
  std::vector<CurvePoint> points;
  for (const BytesAndTimes& row : read_table("C05_pcie_x4_allreduce.csv"))
    points.push_back(point(row.bytes, row.times_us[0] * 1e3));
  const auto fitted = fit_line(points);
  REQUIRE(fitted.has_value());
  CHECK(fitted->max_residual < 0.05);
}

TEST_CASE("C02: no single line fits, and the residuals say so", "[line_fit]") {
  std::vector<CurvePoint> points;
  for (const BytesAndTimes& row : read_table("C02_h100x8_allreduce.csv"))
    points.push_back(point(row.bytes, row.times_us[1] * 1e3));
  const auto fitted = fit_line(points);
  REQUIRE(fitted.has_value());
  CHECK(fitted->max_residual > 0.15);
}

TEST_CASE("quantiles as NumPy's default has them", "[line_fit]") {
  CHECK(quantile({1, 2, 3, 4}, 0.25) == 1.75);
  CHECK(quantile({1, 2, 3, 4}, 0.5) == 2.5);
  CHECK(quantile({1, 2, 3, 4}, 1) == 4);
  CHECK(quantile({7}, 0.3) == 7);
  CHECK(median({3, 1, 700}) == 3);
}

}  // namespace
}  // namespace pdl
