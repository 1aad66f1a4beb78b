// A curve through measured points of which some are wrong: which to keep.
//
//   time
//    |                 o        More bytes never take less time, but for noise. The largest set of points of which that
//    |      x       o           is true is kept; the others (x) are left out, whichever way they are off.
//    |  o   .  o o     .        Then single points that their neighbours rule out: time grows with size, at most in
//    |         .  x             proportion to it. Ends, which have one neighbour, must miss by more.
//    +--------------- size
//
// What is kept still wobbles by noise; it is smoothed to be non-decreasing (least squares in log(time)). No formula for
// the curve is assumed: switches of protocol are real and stay.
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

/// Indices of the largest subset of `times` in which none is smaller than an earlier one by more than noise: two times
/// agree if they are within `tolerance` of one value. Of several largest, one with low times. O(n^2).
std::vector<std::size_t> largest_consistent_subset(const std::vector<double>& times, double tolerance);

/// The non-decreasing sequence nearest to the values (least squares): pool adjacent violators.
std::vector<double> isotonic(const std::vector<double>& values);

}  // namespace pdl
