// How often to repeat, so that all probes end in time.
//
//   pace(60, 100, 0.5)     // .67: half is done in 60 s, the other half has 40 s left where it would take 60
#pragma once

#include <algorithm>

namespace pdl {

/// What is left of `limit_s` over what the rest takes as it went so far, 0 to 1. `done`: the share of all that is done,
/// 0 to 1; less than 5 % says nothing yet of how fast it goes and is taken as 5 %.
inline double pace(double spent_s, double limit_s, double done) {
  constexpr double kSaysSomething = 0.05;
  if (done >= 1) return 1;
  const double rest_s = spent_s / std::max(done, kSaysSomething) * (1 - done);
  if (rest_s <= 0) return 1;
  return std::clamp((limit_s - spent_s) / rest_s, 0.0, 1.0);
}

}  // namespace pdl
