// How far a predicted step may be off: its error bar, from what is known of the errors of its prices.
//
//   GPU 0, 100 ms of tasks: 60 ms rest on layers that a probe measured   +- 1 %    share 0.60
//                           40 ms on layers that the model of kernels has +- 5 %    share 0.40, unprobed
//
//   half width = sqrt((0.60 x 1 %)^2 + (0.40 x 5 %)^2 + (2.4 %)^2) = 3.2 %          90 % of measured steps lie within
//
// It is that of the GPU with the most work: the shares are of the summed time of its tasks, as those of
// sim/cost/notice_shares.hpp. Sources of error are independent of each other, so their parts add up as squares; the
// times of one source are wrong together, so a layer that is run eight times is eight times as much of the step. Half
// widths are in per cent of the step, or of the times of a source. Left out: that a task off the critical path may be
// wrong without the step being so, and errors of the plan itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/task_cost.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

struct PriceError;

/// What a step differs from the sum of its parts, relative, 90 % within: what runs of one plan differ by on two hosts
/// of a kind, and what the plan itself leaves out. It is what 90 % of the 263 GPU-bound runs in fp32 at probed sizes on
/// 4 x H100 and 4 x H200 of 2026-11-28 needed beside the errors of their prices (data/h100x4, data/h200x4). Runs of
/// 2026-11-29, which had no part in it: all of 66 on two other H200 are within their bars (data/h200x2/runs_on_host_3
/// and _4), 89 % of 38 on the two of the profile (data/h200x2/runs). Of two hosts alone: medians of half of 45 pairs of
/// runs above 20 ms are within 0.25 %, of 37 within 1 %.
inline constexpr double kStepFloor = 0.024;

/// Below this share of the step's work that no probe measured, a prediction is called probed.
inline constexpr double kProbedBelow = 0.005;

/// A source of error with its part of the bar.
struct ErrorCarrier {
  std::string what;               // for people
  double share = 0;               // of the work of the GPU with the most of it, in 0..1
  double half_width_percent = 0;  // of the times that rest on it
  bool probed = true;             // a probe measured exactly these
  bool operator==(const ErrorCarrier&) const = default;
};

/// Of a predicted step.
struct ErrorBar {
  double half_width_percent = 0;  // of the step: 90 % of measured steps lie within
  double unprobed_share = 0;      // of the work of the GPU with the most of it, in 0..1
  /// The sources that carry the bar, the largest share x half width first, at most kMostCarriers.
  std::vector<ErrorCarrier> carriers;
  bool probed() const { return unprobed_share < kProbedBelow; }
  bool operator==(const ErrorBar&) const = default;
};
inline constexpr std::size_t kMostCarriers = 5;

/// `costs`: by work. `host_difference`: what the step takes longer with a slow host than with the usual one, relative
/// (sim/predict/host_bound.hpp): one more source, of the whole step. Nothing where no error is known or no task takes
/// time.
std::optional<ErrorBar> error_bar(const std::vector<PriceError>& errors, const TaskGraph& graph,
                                  const std::vector<TaskCost>& costs, double host_difference = 0);

}  // namespace pdl
