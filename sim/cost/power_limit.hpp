// How much slower layers get where a card is at its power limit: it lowers its clock until it draws no more than that
// in the mean.
//
//   PowerLimit limit(profile, Dtype::tf32);
//   limit.slowdown(3.0e14, 0.9)     // a step with 300 TFLOP/s in the mean, 90 % of it in layers: 1.05 times as long
//
//   GPU   [layer][layer][optimizer][bubble] [layer] ...      mean = FLOPs of all layers / the whole step
//
// Measured: operations of layers at full clock (probe `layer`: short series, the card rests between them) and the same
// again and again for longer than the card takes to find its clock (probe `sustained`). By how much they slow down
// follows the FLOP/s that they have at full clock:
//
//   slowdown(u) = max(1, (u / limit)^exponent)               u: FLOP/s of an operation that runs alone, at full clock
//
// What a step does beside its layers takes little power, so the clock is that of the mean power of the step. The energy
// of a FLOP at a lower clock is less: with s = (u / limit)^exponent alone, u s^-(1/exponent - 1) / s = limit. In a step
// of length T, of which a share d are layers, which alone get longer,
//
//   s^(1/exponent - 1) (1 + d (s - 1)) = FLOPs / T / limit
//
// On an H200 (2026-11-29, 700 W): tf32 from 250 TFLOP/s with exponent .26, bf16 from 430 with .24: a loop of products
// of 8192 takes 1.17 times its time at full clock, training steps of 8192 x 6 1.06 and 1.07, which this says to 1 %.
// The clock falls 40 to 60 ms after the load begins, so shorter runs are faster; after .7 s it falls below what it
// keeps for a moment. Cards of one kind differ, and one differs with its temperature, by some per cent.
//
// Units: FLOP/s, nanoseconds. Not here: when the clock falls; links, whose clocks stay.
#pragma once

#include <optional>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

class PowerLimit {
 public:
  static constexpr double kLargestExponent = 0.5;

  /// None: nothing slows down. The same without the probes.
  PowerLimit() = default;
  PowerLimit(const CostProfile& profile, Dtype dtype);
  /// Exponent: up to the largest one.
  PowerLimit(double flops_per_s, double exponent) : flops_per_s_(flops_per_s), exponent_(exponent), known_(true) {}

  /// There were probes.
  bool is_known() const { return known_; }
  /// The most that a card does without slowing down; nothing: it does not.
  std::optional<double> flops_per_s() const { return exponent_ > 0 ? std::optional(flops_per_s_) : std::nullopt; }
  double exponent() const { return exponent_; }

  /// Of the layers of a step: by what their time at full clock is multiplied. `mean_flops_per_s`: of the whole step at
  /// full clock; `share`: of it in layers, 0 to 1.
  double slowdown(double mean_flops_per_s, double share) const;

 private:
  double flops_per_s_ = 0;
  double exponent_ = 0;  // 0: no limit
  bool known_ = false;
};

}  // namespace pdl
