#include "calibrate/fit/robust_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdl {
namespace {

// Costs of a choice of points, in log(time): .2 is a point that lies 22 % above the line between its neighbours.
constexpr double kLeftOut = 0.2;
constexpr double kStep = 0.19;       // less than leaving a point out: a step between two points that go on is kept
constexpr double kLooseStep = 0.25;  // more than leaving the one point out that makes it
constexpr double kNoise = 0.1;       // a fall, or growth beyond proportion, that two medians may differ by
constexpr std::size_t kFewPoints = 64;
constexpr std::size_t kLongestGap = 8;  // points left out in a row, in curves of more than that

/// A choice that ends with two kept points.
struct Choice {
  double cost = std::numeric_limits<double>::infinity();
  std::size_t before = 0;  // the kept point before these two; itself the first of them if there is none
  // Growth before the last step, if the two points are a step; else between them.
  double slope = 0;
  double run = 0;  // log(size) over which it was seen; 0: nothing seen yet
};

/// Finds the cheapest choice by dynamic programming over its last two points. The growth before a step is that of the
/// cheapest way to it.
class Chooser {
 public:
  explicit Chooser(const std::vector<CurvePoint>& points)
      : n_(points.size()), gap_(n_ <= kFewPoints ? n_ : kLongestGap + 1) {
    for (const CurvePoint& point : points) {
      x_.push_back(std::log(static_cast<double>(point.size)));
      y_.push_back(std::log(point.time_ns));
    }
    choices_.resize(n_ * gap_);
  }

  std::vector<std::size_t> kept() {
    for (std::size_t j = 1; j < n_; ++j) {
      for (std::size_t i = j - std::min(j, gap_); i < j; ++i) extend(i, j);
    }
    return cheapest();
  }

 private:
  /// The choice that ends with points i and j, j - gap_ <= i < j.
  Choice& at(std::size_t i, std::size_t j) { return choices_[j * gap_ + (j - i - 1)]; }

  void extend(std::size_t i, std::size_t j) {
    const double run = x_[j] - x_[i];
    const double growth = y_[j] - y_[i];
    if (growth < -kNoise) return;
    const bool step = growth > run + kNoise;
    const bool at_end = i == 0 || j == n_ - 1;
    const double own = kLeftOut * static_cast<double>(j - i - 1) + (step ? (at_end ? kLooseStep : kStep) : 0);
    const auto consider = [&](double cost, std::size_t before, double slope, double seen) {
      Choice& choice = at(i, j);
      if (cost >= choice.cost) return;
      choice = step ? Choice{cost, before, slope, seen} : Choice{cost, before, growth / run, run};
    };
    consider(kLeftOut * static_cast<double>(i) + own, i, 0, 0);
    for (std::size_t h = i - std::min(i, gap_); h < i; ++h) {
      const Choice& earlier = at(h, i);
      if (std::isinf(earlier.cost)) continue;
      const bool slower = !step && earlier.run > 0 && growth / run < earlier.slope;
      const double bend = slower ? (earlier.slope - growth / run) * earlier.run * run / (earlier.run + run) : 0;
      consider(earlier.cost + own + bend, h, earlier.slope, earlier.run);
    }
  }

  std::vector<std::size_t> cheapest() {
    // One point alone: the fastest, if nothing else holds together.
    const auto fastest = static_cast<std::size_t>(std::min_element(y_.begin(), y_.end()) - y_.begin());
    double least = kLeftOut * static_cast<double>(n_ - 1);
    std::size_t i = fastest, j = fastest;
    for (std::size_t b = 1; b < n_; ++b) {
      for (std::size_t a = b - std::min(b, gap_); a < b; ++a) {
        const double cost = at(a, b).cost + kLeftOut * static_cast<double>(n_ - 1 - b);
        if (cost >= least) continue;
        least = cost;
        i = a;
        j = b;
      }
    }
    std::vector<std::size_t> kept = {j};
    while (i != j) {
      kept.push_back(i);
      const std::size_t before = at(i, j).before;
      if (before == i) break;
      j = i;
      i = before;
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  std::size_t n_;
  std::size_t gap_;
  std::vector<double> x_, y_;
  std::vector<Choice> choices_;
};

void smooth(std::vector<CurvePoint>& points) {
  std::vector<double> logs;
  for (const CurvePoint& point : points) logs.push_back(std::log(point.time_ns));
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

std::vector<std::size_t> consistent_points(const std::vector<CurvePoint>& measured) {
  return measured.empty() ? std::vector<std::size_t>{} : Chooser(measured).kept();
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
  RobustCurve curve;
  const std::vector<std::size_t> kept = consistent_points(measured);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (std::binary_search(kept.begin(), kept.end(), i)) {
      curve.points.push_back(std::move(measured[i]));
    } else {
      curve.left_out.push_back({measured[i].size, measured[i].time_ns, ""});
    }
  }
  for (LeftOutPoint& point : curve.left_out) {
    const double curve_ns = read_curve({curve.points, {}, std::nullopt}, point.size).time_ns;
    point.reason =
        point.time_ns > curve_ns ? "slower than the points around it allow" : "faster than the points around it allow";
  }
  smooth(curve.points);
  return curve;
}

}  // namespace pdl
