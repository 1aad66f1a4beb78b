#include "sim/cost/curve.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace pdl {
namespace {

/// Time a unit of size beyond the last point: between the last point and the last one of at most half its size, so
/// that the noise of two close points does not decide. Flat or single points: the whole time is taken to grow.
double last_slope(const std::vector<CurvePoint>& points) {
  const CurvePoint& last = points.back();
  for (auto point = points.rbegin() + 1; point != points.rend(); ++point) {
    const bool far_enough = point->size <= last.size / 2 || point + 1 == points.rend();
    if (!far_enough) continue;
    const double slope = (last.time_ns - point->time_ns) / static_cast<double>(last.size - point->size);
    if (slope > 0) return slope;
  }
  return last.time_ns / static_cast<double>(last.size);
}

double smallest_time(const std::vector<CurvePoint>& points) {
  double least = points.front().time_ns;
  for (const CurvePoint& point : points) least = std::min(least, point.time_ns);
  return least;
}

/// The first point with at least that size.
auto at_least(const std::vector<CurvePoint>& points, std::int64_t size) {
  return std::lower_bound(points.begin(), points.end(), size,
                          [](const CurvePoint& point, std::int64_t value) { return point.size < value; });
}

}  // namespace

double interpolate_log_log(double x, double x0, double y0, double x1, double y1) {
  const double fraction = std::log(x / x0) / std::log(x1 / x0);
  return y0 * std::pow(y1 / y0, fraction);
}

double to_picoseconds(double ns) {
  // Beyond 1000 s a double has no picoseconds left to round to.
  return std::abs(ns) < 1e12 ? std::round(ns * 1e3) / 1e3 : std::round(ns);
}

CurveReading read_curve(const Curve& curve, std::int64_t size) {
  const std::vector<CurvePoint>& points = curve.points;
  if (points.empty() || size < 0) throw std::invalid_argument("read: a curve without points, or a negative size");
  if (size == 0) return {0, CurveRange::measured};
  if (size < points.front().size) return {smallest_time(points), CurveRange::below};
  if (size > points.back().size) {
    const double beyond = static_cast<double>(size - points.back().size);
    return {points.back().time_ns + beyond * last_slope(points), CurveRange::above};
  }
  const auto upper = at_least(points, size);
  if (upper->size == size) return {upper->time_ns, CurveRange::measured};
  const auto lower = upper - 1;
  return {interpolate_log_log(static_cast<double>(size), static_cast<double>(lower->size), lower->time_ns,
                              static_cast<double>(upper->size), upper->time_ns),
          CurveRange::measured};
}

double quantile_of_slowest(std::int64_t processes) {
  return std::pow(0.5, 1 / static_cast<double>(std::max<std::int64_t>(processes, 1)));
}

double HostSpread::at(double wanted) const {
  const std::pair<double, double> known[] = {
      {kMedianHost, median_ns}, {0.75, p75_ns}, {0.9, p90_ns}, {kSlowHost, p95_ns}};
  if (wanted <= kMedianHost) return median_ns;
  for (std::size_t i = 1; i < std::size(known); ++i) {
    const auto [above, ns_above] = known[i];
    const auto [below, ns_below] = known[i - 1];
    if (wanted <= above) return ns_below + (ns_above - ns_below) * (wanted - below) / (above - below);
  }
  return p95_ns;
}

double read_issue_ns(const Curve& curve, std::int64_t size, double quantile) {
  const auto issue_ns = [&](const CurvePoint& point) { return point.issue_ns ? point.issue_ns->at(quantile) : 0; };
  const std::vector<CurvePoint>& points = curve.points;
  const auto upper = at_least(points, size);
  if (upper == points.end()) return issue_ns(points.back());
  const double at_upper = issue_ns(*upper);
  if (upper->size == size || upper == points.begin()) return at_upper;
  const auto lower = upper - 1;
  const double at_lower = issue_ns(*lower);
  if (at_lower <= 0 || at_upper <= 0) return std::max(at_lower, at_upper);
  return interpolate_log_log(static_cast<double>(size), static_cast<double>(lower->size), at_lower,
                             static_cast<double>(upper->size), at_upper);
}

const CurvePoint& nearest_point(const Curve& curve, std::int64_t size) {
  const std::vector<CurvePoint>& points = curve.points;
  const auto upper = at_least(points, size);
  if (upper == points.end()) return points.back();
  if (upper == points.begin() || upper->size == size) return *upper;
  const auto lower = upper - 1;
  const double ratio = static_cast<double>(size) / static_cast<double>(lower->size);
  return ratio * static_cast<double>(size) <= static_cast<double>(upper->size) ? *lower : *upper;
}

}  // namespace pdl
