// A curve through measured points of which some are wrong: which to keep.
//
//   time
//    |                 o        Time grows with size, at most in proportion to it, and its growth does not slow down:
//    |      x       o           from a latency to a bandwidth. Points that break this (x) are left out, whichever way
//    |  o   .  o o     .        they are off. A step up that later points confirm (a switch of protocol, the end of a
//    |         .  x             cache) is real and stays.
//    +--------------- size
//
// Of all choices of points the cheapest is kept. In log(size), log(time), a choice costs
//
//   kLeftOut      for each point left out
//   kStep         for each step up: more growth than in proportion to size (kLooseStep at either end of the curve,
//                 where a single point would be all that speaks for it)
//   the bend      for each place where the growth slows down: how far the point is above the line of its neighbours
//
// and a fall by more than noise is never allowed. What is kept still wobbles by noise; it is smoothed to be
// non-decreasing (least squares). No formula for the curve is assumed.
#pragma once

#include <vector>

#include "sim/cost/curve.hpp"

namespace pdl {

struct RobustCurve {
  std::vector<CurvePoint> points;      // time_ns smoothed; median_ns set where that changed it
  std::vector<LeftOutPoint> left_out;  // ascending size
};

/// `measured`: ascending sizes, each once, positive times.
RobustCurve robust_curve(std::vector<CurvePoint> measured);

/// The indices of the points that are kept, ascending. O(n) for long curves, O(n^3) for up to 64 points.
std::vector<std::size_t> consistent_points(const std::vector<CurvePoint>& measured);

/// The non-decreasing sequence nearest to the values (least squares): pool adjacent violators.
std::vector<double> isotonic(const std::vector<double>& values);

}  // namespace pdl
