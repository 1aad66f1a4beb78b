#include "calibrate/fit/robust_curve.hpp"

#include <cmath>
#include <random>
#include <set>

#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

using Times = std::vector<double>;
using Indices = std::vector<std::size_t>;

std::vector<CurvePoint> points_of(const std::vector<std::pair<std::int64_t, double>>& pairs) {
  std::vector<CurvePoint> points;
  for (const auto& [size, time_ns] : pairs) {
    CurvePoint point;
    point.size = size;
    point.time_ns = time_ns;
    points.push_back(point);
  }
  return points;
}

std::set<std::int64_t> left_out_sizes(const RobustCurve& curve) {
  std::set<std::int64_t> sizes;
  for (const LeftOutPoint& point : curve.left_out) sizes.insert(point.size);
  return sizes;
}

/// latency 10 us, 50 GB/s: 1 KiB, 2 KiB, ... 256 MiB.
std::vector<std::pair<std::int64_t, double>> link() {
  std::vector<std::pair<std::int64_t, double>> pairs;
  for (int k = 10; k <= 28; ++k) pairs.emplace_back(1LL << k, 10e3 + static_cast<double>(1LL << k) / 50);
  return pairs;
}

/// Points an octave apart; which are kept.
Indices kept(const Times& times) {
  std::vector<std::pair<std::int64_t, double>> pairs;
  for (std::size_t i = 0; i < times.size(); ++i) pairs.emplace_back(1LL << (10 + i), times[i]);
  return consistent_points(points_of(pairs));
}

TEST_CASE("the points that hold together", "[robust_curve]") {
  CHECK(kept({1, 2, 3}) == Indices{0, 1, 2});
  CHECK(kept({10, 90, 11, 11}) == Indices{0, 2, 3});
  CHECK(kept({10, 11, 2, 12}) == Indices{0, 1, 3});
  CHECK(kept({10, 50, 52, 11, 11}) == Indices{0, 3, 4});
  CHECK(kept({7}) == Indices{0});
  CHECK(kept({}).empty());
  CHECK(kept({9, 1}) == Indices{1});
  CHECK(kept({100, 93, 100}) == Indices{0, 1, 2});  // noise
  CHECK(kept({9, 8, 7, 6, 5, 4, 3, 2, 1}) == Indices{8});
}

TEST_CASE("isotonic: the nearest non-decreasing sequence", "[robust_curve]") {
  CHECK(isotonic({1, 2, 3}) == Times{1, 2, 3});
  CHECK(isotonic({1, 3, 2, 4}) == Times{1, 2.5, 2.5, 4});
  CHECK(isotonic({3, 2, 1}) == Times{2, 2, 2});
  CHECK(isotonic({}).empty());
}

TEST_CASE("a clean curve is kept as it is", "[robust_curve]") {
  const RobustCurve curve = robust_curve(points_of(link()));
  CHECK(curve.left_out.empty());
  REQUIRE(curve.points.size() == link().size());
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    CHECK(curve.points[i].time_ns == link()[i].second);
    CHECK_FALSE(curve.points[i].median_ns.has_value());
  }
}

TEST_CASE("one point off by a factor, anywhere, either way: it alone is left out", "[robust_curve]") {
  for (const double factor : {0.02, 0.2, 0.5, 1.5, 2.0, 5.0, 100.0}) {
    auto pairs = link();
    for (std::size_t i = 1; i + 1 < pairs.size(); ++i) {
      auto off = pairs;
      off[i].second *= factor;
      INFO("factor " << factor << " at " << off[i].first);
      CHECK(left_out_sizes(robust_curve(points_of(off))) == std::set<std::int64_t>{off[i].first});
    }
  }
}

TEST_CASE("a first point too slow, a last point off either way: left out", "[robust_curve]") {
  for (const double factor : {2.0, 50.0}) {
    auto off = link();
    off.front().second *= factor;
    CHECK(left_out_sizes(robust_curve(points_of(off))) == std::set<std::int64_t>{1024});
  }
  for (const double factor : {0.1, 0.6, 2.0, 50.0}) {
    auto off = link();
    off.back().second *= factor;
    INFO("factor " << factor);
    CHECK(left_out_sizes(robust_curve(points_of(off))) == std::set<std::int64_t>{1LL << 28});
  }
}

TEST_CASE("a step stays: a switch of protocol or the end of a cache is no outlier", "[robust_curve]") {
  for (const double factor : {1.3, 2.0, 3.0}) {
    for (std::size_t step = 3; step + 3 < link().size(); ++step) {
      auto pairs = link();
      for (std::size_t i = step; i < pairs.size(); ++i) pairs[i].second *= factor;
      INFO("factor " << factor << " from " << pairs[step].first);
      CHECK(robust_curve(points_of(pairs)).left_out.empty());
    }
  }
}

TEST_CASE("few or sparse sizes: the bend from latency to bandwidth is no outlier", "[robust_curve]") {
  for (const std::size_t stride : {2, 3, 6, 9}) {
    std::vector<std::pair<std::int64_t, double>> sparse;
    for (std::size_t i = 0; i < link().size(); i += stride) sparse.push_back(link()[i]);
    CHECK(robust_curve(points_of(sparse)).left_out.empty());
  }
}

TEST_CASE("noise of 3 %: nothing is left out, and the curve never decreases", "[robust_curve]") {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.03);
  for (int trial = 0; trial < 200; ++trial) {
    auto pairs = link();
    for (auto& [size, time] : pairs) time *= std::exp(std::clamp(noise(random), -0.06, 0.06));
    const RobustCurve curve = robust_curve(points_of(pairs));
    CHECK(curve.left_out.size() <= 1);
    for (std::size_t i = 1; i < curve.points.size(); ++i) CHECK(curve.points[i].time_ns >= curve.points[i - 1].time_ns);
  }
}

TEST_CASE("where the curve is smoothed, the measured median is kept beside it", "[robust_curve]") {
  const RobustCurve curve = robust_curve(points_of({{1, 100}, {2, 96}, {4, 120}}));
  REQUIRE(curve.points.size() == 3);
  CHECK(curve.points[0].time_ns == Approx(std::sqrt(9600)));
  CHECK(curve.points[1].time_ns == curve.points[0].time_ns);
  CHECK(curve.points[0].median_ns == 100.0);
  CHECK(curve.points[1].median_ns == 96.0);
  CHECK_FALSE(curve.points[2].median_ns.has_value());
}

TEST_CASE("every point is either kept or left out", "[robust_curve]") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> any(1, 100);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::pair<std::int64_t, double>> pairs;
    for (int i = 0; i < 1 + trial % 20; ++i) pairs.emplace_back(1 + 10 * i, any(random));
    const RobustCurve curve = robust_curve(points_of(pairs));
    CHECK(!curve.points.empty());
    CHECK(curve.points.size() + curve.left_out.size() == pairs.size());
  }
}

/// H100, all-reduce of 8: held out one by one, within 10 % from 1 MiB up and 20 % below. The two outlier cells are
/// compared with the other column, which has none.
TEST_CASE("C02: an all-reduce table with two outliers, held out row by row", "[robust_curve]") {
  const std::vector<BytesAndTimes> table = read_table("C02_h100x8_allreduce.csv");
  for (const std::size_t column : {0, 1}) {
    for (std::size_t held_out = 0; held_out < table.size(); ++held_out) {
      std::vector<std::pair<std::int64_t, double>> pairs;
      for (std::size_t i = 0; i < table.size(); ++i) {
        if (i != held_out) pairs.emplace_back(table[i].bytes, table[i].times_us[column] * 1e3);
      }
      const RobustCurve robust = robust_curve(points_of(pairs));
      const Curve curve{robust.points, robust.left_out, std::nullopt};
      const std::int64_t bytes = table[held_out].bytes;
      const bool outlier = column == 0 && (bytes == 32 || bytes == 4096);
      const double expected_us = table[held_out].times_us[outlier ? 1 : column];
      const double error = read_curve(curve, bytes).time_ns / 1e3 / expected_us - 1;
      INFO("column " << column << ", " << bytes << " bytes");
      CHECK(std::abs(error) < (bytes >= 1 << 20 ? 0.10 : 0.20));
    }
  }
}

TEST_CASE("C02: exactly the two outlier cells are left out", "[robust_curve]") {
  const std::vector<BytesAndTimes> table = read_table("C02_h100x8_allreduce.csv");
  for (const std::size_t column : {0, 1}) {
    std::vector<std::pair<std::int64_t, double>> pairs;
    for (const BytesAndTimes& row : table) pairs.emplace_back(row.bytes, row.times_us[column] * 1e3);
    const std::set<std::int64_t> expected = column == 0 ? std::set<std::int64_t>{32, 4096} : std::set<std::int64_t>{};
    CHECK(left_out_sizes(robust_curve(points_of(pairs))) == expected);
  }
}

TEST_CASE("C02 with one more cell spoilt: it is left out too", "[robust_curve]") {
  const std::vector<BytesAndTimes> table = read_table("C02_h100x8_allreduce.csv");
  for (const double factor : {0.3, 3.0}) {
    for (std::size_t spoilt = 1; spoilt + 1 < table.size(); ++spoilt) {
      std::vector<std::pair<std::int64_t, double>> pairs;
      for (const BytesAndTimes& row : table) pairs.emplace_back(row.bytes, row.times_us[1] * 1e3);
      pairs[spoilt].second *= factor;
      INFO("factor " << factor << " at " << pairs[spoilt].first);
      CHECK(left_out_sizes(robust_curve(points_of(pairs))) == std::set<std::int64_t>{pairs[spoilt].first});
    }
  }
}

}  // namespace
}  // namespace pdl
