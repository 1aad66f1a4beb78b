// Measurements that are numbers, but cannot be the times they claim to be.
//
// Refused: faster than the card can be (FLOP/s, bytes over a link, bytes of memory). Flagged: times that hardly grow
// while the work grows a hundredfold, and operations that take less than their own kernels: both are what a missing
// synchronisation looks like.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

/// Throws InputError naming the measurement, what it implies and the limit.
void refuse_faster_than_card(const CostProfile& profile, const std::string& place);

/// One text a curve or kind of layer that looks wrong; in the order of keys.
std::vector<std::string> suspicions(const CostProfile& profile);

}  // namespace pdl
