// From a plan and a profile to the cost of each piece of work: what the engine runs on.
//
//   PricedWork priced = price_by_profile(plan, load_profile("h100x4"));
//   run_graph(plan.graph, priced.costs);                          // costs[w] belongs to plan.graph.works[w]
//
// Compute work is a list of kernels: its layers one after another (backward: last layer first, the loss before them),
// each layer's device time split over its kernels in proportion to their recorded durations, its issue time evenly.
// The list is collapsed into four numbers (sim/cost/task_cost.hpp).
//
// A layer that was not measured: by the model of its kernels, where the profile has one; else between measured ones and
// beyond them (sim/cost/layer_time.hpp). How far off that may be goes into the errors.
// A kind of operation that was not measured is taken from the nearest one that was, with a warning; where there is
// none, or the data type was not measured at all, the plan is refused.
//
// Data parallel: copies into and out of buckets and collectives are curves of their own (sim/cost/collective_time.hpp);
// the Reducer's hooks and the calls of collectives are host time; GradScaler's step waits for its unscale, and the host
// for it, before the optimizer is issued. Where a collective runs beside compute the kernels are handed on one by one.
//
// A card at its power limit has a lower clock, which depends on the whole step: what is priced here is at full clock
// where the profile knows both, beside what the limit slows (sim/predict/at_power_limit.hpp takes it from there).
//
// A profile of device "cpu": the host itself computes and copies, and is occupied meanwhile.
//
// Not modelled here: what runs beside it (sim/engine/run.hpp), what depends on when it is issued
// (sim/engine/host_delays.hpp), sharing of links and of memory bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/host_pauses.hpp"
#include "sim/cost/layer_families.hpp"
#include "sim/cost/power_limit.hpp"
#include "sim/cost/task_cost.hpp"
#include "sim/plan/plan.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// One source of error of the prices: times that would all be wrong together and by the same share.
struct PriceError {
  std::string what;       // "linear_relu 3584x3584, 1100 rows, backward fp32 (autograd)": for people
  double half_width = 0;  // relative; 90 % of truths lie within
  bool probed = true;  // a probe measured exactly this; false: it comes from the model of kernels, a line, a roofline
  std::vector<std::pair<std::size_t, double>>
      works_ns{};  // index into TaskGraph::works, device time of it in that work
};

/// The layers in a piece of work.
struct LimitedLayers {
  double flops = 0;
  double device_ns = 0;  // at full clock
};

/// Device time of one piece of work, by what it goes into.
struct KindTime {
  std::size_t work = 0;             // index into TaskGraph::works
  const LayerKind* kind = nullptr;  // null: no layer
  std::string_view name = {};       // of the kind; of what is no layer one of the words below
  std::string_view part = {};       // of the model, the words below; of what is no layer its name again
  double device_ns = 0;
};

/// What is no layer: copies of gradients and whatever else there is are other.
namespace kind_names {
inline constexpr std::string_view kLoss = "loss", kOptimizer = "optimizer", kTransfers = "transfers",
                                  kCollectives = "collectives", kOther = "other";
}
/// Parts of a model: what takes tokens, "attention" and "mlp" of blocks, the last layer of a model with blocks; other
/// layers.
namespace part_names {
inline constexpr std::string_view kEmbedding = "embedding", kAttention = "attention", kMlp = "mlp", kHead = "head",
                                  kLayers = "layers";
}

struct PricedWork {
  std::vector<TaskCost> costs;
  /// One a kind of thing: extrapolated sizes (with what was measured), substitutes, what the fit warned about.
  std::vector<std::string> warnings = {};
  /// Of a step as a whole, from its start to its end, beside the tasks: host probe `step_overhead`.
  std::int64_t step_overhead_ns = 0;
  /// Where collectives run beside compute on GPUs.
  SharedMultiprocessors shared = {};
  /// Of hosts that do not wait for each other inside a step.
  HostPauses pauses = {};
  /// Of the warnings that are about pieces of work: the share of the step's work that rests on it
  /// (sim/cost/notice_shares.hpp).
  std::map<std::string, double> warning_shares = {};
  /// Empty: not known (synthetic costs, profiles without what it needs).
  std::vector<PriceError> errors = {};
  /// By work, where the card has a power limit for the data type: what of it slows down there. Empty: nothing does.
  std::vector<LimitedLayers> limited = {};
  PowerLimit power_limit = {};
  /// What the device times of all works but sleeps are made of, in the order of works; of each work every kind and part
  /// once. Empty: not asked for, or not known (synthetic costs).
  std::vector<KindTime> kinds_ns = {};
  /// By what the times of layers above have been multiplied, because of it.
  double slowdown = 1;
};

/// Host times vary with the core that a process is on and what else that does.
///   usual  the median; where DDP's processes wait for each other in every step, that of the slowest of them
///   slow   the 95th percentile; what it is asked for is a second step beside the usual one: no warnings, no errors
enum class HostSpeed : std::uint8_t { usual, slow };

/// Throws InputError naming the profile and what it has, if it lacks what the plan needs: data type, transport,
/// optimizer, loss.
PricedWork price_by_profile(const Plan& plan, LayerFamilies& families, HostSpeed host = HostSpeed::usual);
/// The same with families of its own: for one plan.
PricedWork price_by_profile(const Plan& plan, const CostProfile& profile, HostSpeed host = HostSpeed::usual);

/// Textbook costs (--tf --tb --tw --tcomm), rounded to nanoseconds, of each stage and micro-batch. Forward tf; backward
/// tb, or tb + tw if tw is given; backward_input tb and backward_weight tw, or half of tb each if tw is not given. A
/// worker with V stages takes that V times. A part of a backward, or of a forward that is run again, takes its share of
/// the layers. Transfers tcomm; a collective its share of tcomm by bytes, tcomm for all parameters; slices, loss and
/// copies of data-parallel programs and the optimizer nothing. No host time but for sleeps.
std::vector<TaskCost> price_synthetic(const Plan& plan, const SyntheticCosts& costs);

}  // namespace pdl
