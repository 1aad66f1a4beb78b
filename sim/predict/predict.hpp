// The one recipe of a prediction: spec -> device and hosts of the profile -> order -> plan -> price -> run -> memory ->
// what the host has to do with it.
//
//   const RunSpec spec = parse_run_spec(words);                          // --gpus 4 --strategy ddp
//   const auto costs = choose_costs(spec.synthetic.has_value(), std::nullopt, [&] { return std::vector{spec}; });
//   RunResult run = predict(spec, costs ? &*costs : nullptr);            // what pdl-sim prints, to the byte
//   run.step_time.median_ms, run.peak_memory_bytes, run.host_share, run.warnings
//
// Command line, sweep, scenario, validate and the library (sim/library) predict by this function alone; a search that
// compares many has the same step without its error bar (step_alone.hpp). Below both: planned_spec.hpp, find_order.hpp
// and host_bound.hpp, over step_of_plan.hpp. Step time: the last end of a task, and the overhead of
// a step as a whole that the profile has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/layer_families.hpp"
#include "sim/predict/noise.hpp"
#include "sim/predict/plan_maker.hpp"
#include "sim/predict/planned_spec.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct PredictOptions {
  /// The most that a GPU may need, in bytes. A run that needs more is refused, and schedule "auto" is searched among
  /// the orders that need no more. Default: what the profile's card has; no limit if that is not known, or if costs are
  /// synthetic.
  std::optional<std::int64_t> memory_limit_bytes = std::nullopt;
  /// Default: a step whose host share is above kHostBoundShare has a warning that says so. false: only
  /// RunResult::host_share tells, for tables that keep such runs apart.
  bool warn_where_host_bound = true;
  /// false: RunResult::probe_command stays empty, for tables that do not show it.
  bool with_probe_command = true;
  /// The file of samples that the profile was fitted from, for RunResult::probe_command (samples_beside()). Default:
  /// not known.
  std::string samples = "";
  /// Default: no step is drawn, RunResult::noise stays empty.
  std::optional<NoiseOptions> noise = std::nullopt;
  /// Those of the profile, where many specs are predicted by it: what one prediction has worked out of layers, the next
  /// ones and other threads have at once. Default: its own.
  LayerFamilies* families = nullptr;
  /// Of this thread, where many specs are predicted that may share a graph. Default: the plan is made for this one.
  PlanMaker* plans = nullptr;
};

/// `profile` is not used (and may be nullptr) if the spec has synthetic costs. The result's spec is the one that was
/// planned: on a profile of device "cpu" as on_cpu() has it, on the hosts of the profile where the user gave none
/// (sim/cost/hosts_of_profile.hpp), for schedule "auto" with the order that was found, for split "auto" with the layers
/// of each stage. Throws InputError as make_plan, price and on_hosts_of_profile, and for noise where costs are
/// synthetic; CannotRun for a deadlock; OutOfMemory if a GPU needs more memory than it may.
RunResult predict(const RunSpec& spec, const CostProfile* profile, const PredictOptions& options = {});

/// Of what is predicted together, a table or one run: nothing where the user gives the costs (`synthetic`); else the
/// profile of that name or path (load_profile); where none is named, the one that can price most of the specs
/// (load_default_profile), which are asked for only then. Throws InputError: a profile beside synthetic costs, and as
/// those two.
std::optional<CostProfile> choose_costs(bool synthetic, const std::optional<std::string>& profile,
                                        const std::function<std::vector<RunSpec>()>& specs);

/// The samples.json beside the file of what choose_costs() gave for `profile`; empty if there is none.
std::string samples_beside(const std::optional<std::string>& profile, const CostProfile& costs);

/// What would have the shapes of a run probed, so that its error bar rests on probes: "pdl-calibrate --from
/// data/h200x4/samples.json --depth 13 --dim 3584 ... --samples samples.json --out profile.json". The words are those
/// that the user gave, and always the model, the batch and the number of GPUs: "--gpus 2 --plan-gpus 8" where the
/// machine has fewer than the run. `split`: those layers of stages instead of auto. `samples`: empty: all is measured
/// anew. `machine`: that of the profile.
std::string probe_command(RunSpec asked, const std::vector<std::int64_t>& split, const std::string& samples,
                          const Environment& machine);

}  // namespace pdl
