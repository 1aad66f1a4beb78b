#include "sim/predict/predict.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/error_bar.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/at_power_limit.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "sim/predict/times_by_kind.hpp"

namespace pdl {
namespace {

double in_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::string loss_scale_warning(double loss_scale) {
  return "loss-scale " + to_text(loss_scale) +
         ": steps that GradScaler skips are not predicted; this is a step that it does not skip, "
         "the same for every scale";
}

const RepeatedRuns* repeated(const MadePlan& made) {
  return made.runs ? &*made.runs : nullptr;
}

/// What the host has to do with the step, and how far off the step may be. `slow`: with its slow host; none where the
/// host itself computes.
void judge(const MadePlan& made, const PricedWork& priced, const PricedWork* slow, const PredictOptions& options,
           RunResult& result) {
  const SlowHost host = slow ? slow_host(made.plan, *slow, repeated(made)) : SlowHost();
  const double usual_ns = 1e6 * result.step_time.median_ms;
  result.host_share = host.share;
  result.error_bar =
      error_bar(priced.errors, made.plan.graph, priced.costs, std::max(0.0, host.step_ns / usual_ns - 1));
  if (options.warn_where_host_bound && *result.host_share > kHostBoundShare) {
    result.warnings.push_back(host_bound_warning());
  }
}

/// How the step varies: drawn steps, if asked for, and what the host has to do with it.
void add_spread(const MadePlan& made, LayerFamilies& families, const PricedWork& priced, const PredictOptions& options,
                RunResult& result) {
  const bool host_issues = families.profile().host_description.device != "cpu";
  std::optional<PricedWork> slow;
  if (options.noise || host_issues) {
    slow = price_by_profile(made.plan, families, HostSpeed::slow);
    slow_down_layers(*slow, priced.slowdown);
  }
  if (options.noise) result.noise = draw_steps(made.plan, priced, *slow, *options.noise);
  judge(made, priced, host_issues ? &*slow : nullptr, options, result);
}

}  // namespace

RunResult predict(const RunSpec& asked, const CostProfile* profile, const PredictOptions& options) {
  if (!asked.synthetic && !profile) throw std::logic_error("a prediction needs a profile or synthetic costs");
  std::optional<LayerFamilies> own;
  LayerFamilies* families = asked.synthetic ? nullptr : options.families;
  if (!asked.synthetic && !families) families = &own.emplace(*profile);
  std::optional<PlanMaker> own_plans;
  PlanMaker& plans = options.plans ? *options.plans : own_plans.emplace();
  const MadePlan& made = plans.plan(planned_spec(asked, families, options.memory_limit_bytes));
  const RunSpec& spec = made.plan.spec;
  RunResult result = begin_result(made.plan);
  StepOfPlan step = step_of_plan(made.plan, families, /*with_ideal=*/true, repeated(made));
  result.warnings.insert(result.warnings.end(), step.priced.warnings.begin(), step.priced.warnings.end());
  result.warning_shares = std::move(step.priced.warning_shares);
  if (spec.loss_scale != RunSpec().loss_scale) result.warnings.push_back(loss_scale_warning(spec.loss_scale));
  result.timeline = std::move(step.timeline);
  const bool overlap = steps_overlap(spec);
  result.step_time.median_ms = in_ms(step_ns(result.timeline, overlap));
  TimesByKind times = times_by_kind(made.plan, step.priced, result.step_time.median_ms);
  result.layer_kinds = std::move(times.kinds);
  result.layer_parts = std::move(times.parts);
  result.bound_ms = in_ms(overlap ? step.ideal.longest_worker_ns : step.ideal.last_end_ns);
  result.workspaces = step.workspaces;
  result.peak_memory_bytes = std::move(step.peak_memory_bytes);
  if (!spec.synthetic) result.environment = environment_of(*profile);
  check_memory(result, profile, options.memory_limit_bytes);
  if (options.noise && spec.synthetic) throw InputError("--noise", "costs without a spread", "costs of a profile");
  if (!spec.synthetic) add_spread(made, *families, step.priced, options, result);
  if (options.with_probe_command && result.error_bar && !result.error_bar->probed())
    result.probe_command = probe_command(asked, spec.split.layers, options.samples, profile->host_description);
  return result;
}

}  // namespace pdl
