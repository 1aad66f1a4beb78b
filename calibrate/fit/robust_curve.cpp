#include "calibrate/fit/robust_curve.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr double kTolerance = 0.05;         // noise of a median, either way
constexpr double kSticksOut = 1.2;          // a factor out of what its neighbours allow: more is an outlier ...
constexpr double kStays = 0.4;              // ... unless without it they are off by more than this part of that
constexpr double kEndStep = 1.5;            // the same for ends, which have one neighbour
constexpr std::size_t kEnoughToCompare = 5;  // fewer points than that are not judged by their neighbours

/// The chosen points so far, last first; shared tails.
struct Chosen {
  std::size_t index;
  std::shared_ptr<const Chosen> before;
  std::size_t count;
};

double log_size(const CurvePoint& point) { return std::log(static_cast<double>(point.size)); }
double log_time(const CurvePoint& point) { return std::log(point.time_ns); }

/// log(time / straight line between its neighbours) of an inner point, without its sign.
double bend(const std::vector<CurvePoint>& points, std::size_t i) {
  const CurvePoint& a = points[i - 1];
  const CurvePoint& b = points[i + 1];
  const double fraction = (log_size(points[i]) - log_size(a)) / (log_size(b) - log_size(a));
  return std::abs(log_time(points[i]) - (log_time(a) + fraction * (log_time(b) - log_time(a))));
}

/// How far, in log(time), an inner point lies outside of what its neighbours allow. Time grows with size, at most in
/// proportion to it: that bounds it from both neighbours, from above and from below.
double outside(const std::vector<CurvePoint>& points, std::size_t i) {
  const CurvePoint& a = points[i - 1];
  const CurvePoint& b = points[i + 1];
  const double least = std::max(log_time(a), log_time(b) - (log_size(b) - log_size(points[i])));
  const double most = std::min(log_time(b), log_time(a) + (log_size(points[i]) - log_size(a)));
  return std::max({least - log_time(points[i]), log_time(points[i]) - most, 0.0});
}

std::vector<CurvePoint> without(std::vector<CurvePoint> points, std::size_t i) {
  points.erase(points.begin() + static_cast<std::ptrdiff_t>(i));
  return points;
}

/// A point that its neighbours do not allow while, without it, they allow each other: not a step, which stays. Of
/// several such points, the one without which the curve is straightest there.
std::optional<std::size_t> find_sticking_out(const std::vector<CurvePoint>& points) {
  if (points.size() < kEnoughToCompare) return std::nullopt;
  std::optional<std::size_t> found;
  double least_bend = 0;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const double off = outside(points, i);
    if (off <= std::log(kSticksOut)) continue;
    const std::vector<CurvePoint> rest = without(points, i);
    double left = 0;
    double bent = 0;
    for (const std::size_t neighbour : {i - 1, i}) {
      if (neighbour == 0 || neighbour + 1 == rest.size()) continue;
      left = std::max(left, outside(rest, neighbour));
      bent = std::max(bent, bend(rest, neighbour));
    }
    if (left > kStays * off || (found && bent >= least_bend)) continue;
    found = i;
    least_bend = bent;
  }
  return found;
}

/// A first or last point that grew by much more than its size did, or a last one that turned flat where time had been
/// growing with size.
std::optional<std::size_t> find_loose_end(const std::vector<CurvePoint>& points) {
  const std::size_t n = points.size();
  if (n < kEnoughToCompare) return std::nullopt;
  const auto step = [&](std::size_t i) {  // growth of time beyond proportion
    return (log_time(points[i + 1]) - log_time(points[i])) - (log_size(points[i + 1]) - log_size(points[i]));
  };
  if (step(n - 2) > std::log(kEndStep)) return n - 1;
  if (step(0) > std::log(kEndStep)) return 0;
  const double slope = (log_time(points[n - 2]) - log_time(points[n - 3])) / (log_size(points[n - 2]) - log_size(points[n - 3]));
  const double expected = log_time(points[n - 2]) + std::clamp(slope, 0.0, 1.0) * (log_size(points[n - 1]) - log_size(points[n - 2]));
  if (log_time(points[n - 1]) < expected - std::log(kEndStep)) return n - 1;
  return std::nullopt;
}

void leave_out(RobustCurve& curve, std::size_t i, const std::string& reason) {
  curve.left_out.push_back({curve.points[i].size, curve.points[i].time_ns, reason});
  curve.points = without(std::move(curve.points), i);
}

void keep_consistent(RobustCurve& curve) {
  std::vector<double> times;
  for (const CurvePoint& point : curve.points) times.push_back(point.time_ns);
  const std::vector<std::size_t> kept = largest_consistent_subset(times, kTolerance);
  for (std::size_t i = curve.points.size(); i-- > 0;) {
    if (!std::binary_search(kept.begin(), kept.end(), i)) leave_out(curve, i, "time does not fit: more takes less, or less more");
  }
}

void smooth(std::vector<CurvePoint>& points) {
  std::vector<double> logs;
  for (const CurvePoint& point : points) logs.push_back(log_time(point));
  const std::vector<double> smoothed = isotonic(logs);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (smoothed[i] == logs[i]) continue;
    const double time_ns = to_picoseconds(std::exp(smoothed[i]));
    if (time_ns == points[i].time_ns) continue;
    points[i].median_ns = points[i].time_ns;
    points[i].time_ns = time_ns;
  }
}

}  // namespace

std::vector<std::size_t> largest_consistent_subset(const std::vector<double>& times, double tolerance) {
  // By the largest lower bound of a chosen time so far: the longest choice. A time can be added if its upper bound is
  // not below that.
  std::map<double, std::shared_ptr<const Chosen>> best;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double lower = times[i] * (1 - tolerance);
    const double upper = times[i] * (1 + tolerance);
    std::shared_ptr<const Chosen> start;  // the longest whose bound this one raises
    for (const auto& [bound, chosen] : best) {
      if (bound > lower) break;
      if (!start || chosen->count > start->count) start = chosen;
    }
    for (auto entry = best.upper_bound(lower); entry != best.end() && entry->first <= upper; ++entry) {
      entry->second = std::make_shared<const Chosen>(Chosen{i, entry->second, entry->second->count + 1});
    }
    std::shared_ptr<const Chosen>& at_lower = best[lower];
    const std::size_t count = (start ? start->count : 0) + 1;
    if (!at_lower || count > at_lower->count) at_lower = std::make_shared<const Chosen>(Chosen{i, start, count});
  }
  std::shared_ptr<const Chosen> longest;
  for (const auto& [bound, chosen] : best) {
    if (!longest || chosen->count > longest->count) longest = chosen;
  }
  std::vector<std::size_t> indices;
  for (const Chosen* chosen = longest.get(); chosen; chosen = chosen->before.get()) indices.push_back(chosen->index);
  std::reverse(indices.begin(), indices.end());
  return indices;
}

std::vector<double> isotonic(const std::vector<double>& values) {
  struct Block {
    double sum;
    std::size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({value, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  std::vector<double> smoothed;
  for (const Block& block : blocks) smoothed.insert(smoothed.end(), block.count, block.mean());
  return smoothed;
}

RobustCurve robust_curve(std::vector<CurvePoint> measured) {
  RobustCurve curve{std::move(measured), {}};
  keep_consistent(curve);
  while (const auto i = find_sticking_out(curve.points)) leave_out(curve, *i, "sticks out from between its neighbours");
  while (const auto i = find_loose_end(curve.points)) leave_out(curve, *i, "does not go on as the points before it");
  smooth(curve.points);
  std::sort(curve.left_out.begin(), curve.left_out.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
  return curve;
}

}  // namespace pdl
