// What a step takes on another day: its time drawn many times, from what is known of the spread of its parts.
//
//   StepDistribution drawn = draw_steps(plan, usual, slow, {.draws = 200});
//   drawn.p10_ms, drawn.p50_ms, drawn.p90_ms               // 80 % of measured medians should lie between the outer two
//
// A draw is one run of the plan on one machine of the kind. What is drawn:
//
//   prices   each source of error of the error bar (sim/cost/error_bar.hpp), its times all by one factor: log-normal,
//            90 % within its half width, which for what a probe measured comes from the quartiles of its values. So is
//            the floor of a step as a whole.
//   host     one factor for the times in which hosts issue: log-normal through the median of the probes and their 95th
//            percentile. Below the median it mirrors what is above, since a profile has the upper quantiles alone.
//
// Each number comes from the plan's seed (--seed), draw and place alone (a counter through a hash, no state), so a draw
// is the same whatever was drawn before it and by however many threads. Units: milliseconds. Left out: that tasks of a
// step vary among themselves, that sources of error may have a common cause; stragglers and failures.
#pragma once

#include <cstdint>

#include "sim/cost/price.hpp"
#include "sim/plan/plan.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct NoiseOptions {
  std::int64_t draws = 100;  // at least 1
  std::int64_t threads = 1;  // the result is the same for any number
};

inline constexpr std::int64_t kMostDraws = 100'000;

/// Quantiles of the drawn step times: those at ranks of 10, 50 and 90 %, straight between draws. `usual`, `slow`:
/// what the plan costs with each host (price_by_profile). Throws CannotRun for a deadlock, std::logic_error for no
/// draw.
StepDistribution draw_steps(const Plan& plan, const PricedWork& usual, const PricedWork& slow,
                            const NoiseOptions& options);

/// A number of the standard normal distribution that depends on its arguments alone.
double standard_normal(std::uint64_t seed, std::uint64_t draw, std::uint64_t place);

}  // namespace pdl
