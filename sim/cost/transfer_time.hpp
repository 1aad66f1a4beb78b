// Time of a transfer between two workers, for every pair, from the pairs that a profile has.
//
//   TransferTimes times(profile, "copy", notices);
//   times.at(0, 1, 8 << 20)
//
// A pair that was not measured takes the median of those that were, and is said. Where only transfers both ways at once
// were measured they are taken, and said. Units: bytes, nanoseconds.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

class TransferTimes {
 public:
  /// Profile and notices must outlive this.
  TransferTimes(const CostProfile& profile, std::string transport, Notices& notices);

  /// Throws InputError naming the profile if it has no such transport.
  double at(std::int32_t from, std::int32_t to, std::int64_t bytes);

 private:
  const CostProfile& profile_;
  std::string transport_;
  Notices& notices_;
  std::vector<const MeasuredCurve*> pairs_;  // by this transport: one way, where that was measured
  bool both_ways_ = true;                    // nothing else was measured
};

}  // namespace pdl
